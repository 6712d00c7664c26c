// An offline page of the ranks' ops over time, with sliders that stretch ops and messages (plots/page/timeline.html).
#pragma once

#include <string>
#include <vector>

#include "harness/base/output_file.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"
#include "results/record.h"

namespace sluice {

struct TimelinePage {
  std::string title, about;
  std::string what;                // that the trace is of: "one update"
  std::vector<std::string> ranks;  // their names; empty: "rank 0", "rank 1", ...
};

// The page computes start times from the order of a rank's ops and the messages between them, and keeps what else an
// op waited for (a shared link, a collective) as a constant delay, so that unmoved sliders give the simulated times.
// Throws InputError for more than kMaxPageOps ops.
inline constexpr std::size_t kMaxPageOps = 200'000;
std::string timeline_page(const TimelinePage& page, const Trace& trace);
// The same of a record's timeline (not empty), without its collectives: an update, or the first batches of an
// asynchronous system, as measured or simulated.
std::string timeline_page(const Record& record);

// Where --html writes. Throws InputError if the file holds anything but an earlier page.
OutputFile timeline_page_file(const std::string& file);

}  // namespace sluice
