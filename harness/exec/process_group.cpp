#include "harness/exec/process_group.h"

#include "harness/base/error_words.h"
#include "harness/base/stop.h"
#include "harness/exec/bytes.h"

namespace sluice {

void agree_on_error(ProcessGroup* processes, const std::function<void()>& work) {
  if (!processes) return work();
  // The first byte tells a stop, which ends the case in all of them, from an error.
  constexpr char kCancelled = '\1', kTimedOut = '\2';
  std::string error;
  try {
    work();
  } catch (const Stopped& stopped) {
    error = (stopped.kind == Stopped::Kind::cancelled ? kCancelled : kTimedOut) + std::string(stopped.what());
  } catch (const std::exception& e) {
    error = words_of(e);
    if (error.empty()) error = "failed";
  }
  const std::vector<std::string> errors = processes->all_gather(error);
  for (const std::string& text : errors)
    if (text.starts_with(kCancelled) || text.starts_with(kTimedOut))
      throw Stopped(text[0] == kCancelled ? Stopped::Kind::cancelled : Stopped::Kind::timed_out, text.substr(1));
  for (std::size_t r = 0; r < errors.size(); ++r)
    if (!errors[r].empty())
      throw AgreedError("", r == 0 ? errors[r] : "process " + std::to_string(r) + ": " + errors[r]);
}

}  // namespace sluice
