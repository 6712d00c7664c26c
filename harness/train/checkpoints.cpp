#include "harness/train/checkpoints.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/quantities.h"
#include "harness/base/read_text.h"
#include "harness/base/visible_text.h"
#include "results/store.h"

namespace sluice {

Checkpoints::Checkpoints(std::string folder, std::string digest, ProcessGroup* processes)
    : folder_(std::move(folder)), digest_(std::move(digest)), stem_(folder_ + "/" + digest_), processes_(processes) {}

void Checkpoints::save(const Session& session, const Record& record, const TrainingPosition& position) {
  if (folder_.empty()) return;
  try {
    agree_on_error(processes_, [&] {
      if (leads()) make_folder();
    });
    session.save(state_file(position.next));
    agree_on_error(processes_, [&] {
      if (leads()) write_record(record, position);
    });
  } catch (const InputError& e) {
    // A checkpoint saves time should something happen; the training itself needs none.
    if (leads()) fmt::print(stderr, "warning: no checkpoint is kept: {}; the run goes on\n", visible(e.what()));
    folder_.clear();
  }
}

void Checkpoints::make_folder() const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw InputError(folder_, "cannot be made: " + errno_text(error.value()));
}

// A name for what the file says, so that one that was edited is found out.
static std::string seal(const Json& record, const TrainingPosition& position) {
  Json sealed = Json::array({record, position.next, position.updates, position.seconds});
  if (!position.layers.empty()) sealed.push_back(position.layers);
  return digest(sealed);
}

void Checkpoints::write_record(const Record& record, const TrainingPosition& position) const {
  const Json content = to_json(record);
  Json json = {{"record", content},
               {"next", position.next},
               {"updates", position.updates},
               {"seconds", position.seconds},
               {"seal", seal(content, position)}};
  if (!position.layers.empty()) json["layers"] = position.layers;
  try {
    write_text(record_file(), json.dump() + "\n");
  } catch (const RunError& e) {
    std::error_code ignored;
    std::filesystem::remove(state_file(position.next), ignored);
    throw InputError("", e.what());
  }
  std::error_code ignored;
  std::filesystem::remove(state_file(position.next - 1), ignored);
}

TrainingPosition Checkpoints::restore(Session& session, Record& record, const std::vector<UndrainedSegment>& segments,
                                      bool of_any_plan) const {
  if (folder_.empty()) return {};
  Json json;
  agree_on_error(processes_, [&] {
    if (leads() && std::filesystem::exists(record_file())) json = parse_json_file(record_file());
  });
  if (processes_) json = Json::parse(processes_->broadcast(json.dump(), 0));
  if (json.is_null()) return {};
  Record restored;
  TrainingPosition position;
  agree_on_error(processes_, [&] {
    JsonReader reader(json, record_file());
    restored = record_from_json(reader.raw("record"), record_file());
    position.next = reader.integer<std::size_t>("next", 1, kMaxWhole);
    position.updates = reader.integer<std::int64_t>("updates", 1, kMaxWhole);
    position.seconds = reader.number("seconds", 0, kMaxSeconds);
    position.layers = reader.text("layers", "");
    const bool sealed = reader.text("seal") == seal(reader.raw("record"), position);
    const std::string wrong = sealed ? what_is_wrong(restored, position, segments) : "was changed after it was written";
    if (!wrong.empty()) throw InputError(record_file(), wrong, "delete it, and the case starts anew");
  });
  session.load(state_file(position.next), of_any_plan);
  agree_on_error(processes_, [&] {
    if (session.updates_done() != position.updates)
      throw InputError(state_file(position.next),
                       "was made after " + std::to_string(session.updates_done()) + " updates, " + record_file() +
                           " after " + std::to_string(position.updates),
                       "delete both, and the case starts anew");
  });
  restored.environment = record.environment;
  record = std::move(restored);
  return position;
}

std::string Checkpoints::what_is_wrong(const Record& record, const TrainingPosition& position,
                                       const std::vector<UndrainedSegment>& segments) const {
  if (record.digest != digest_) return "is a checkpoint of another case";
  if (position.next >= segments.size())
    return "says that " + std::to_string(position.next) + " parts of the training are done; a case that goes on has " +
           "fewer than its " + std::to_string(segments.size());
  std::int64_t updates = 0;
  std::vector<std::int64_t> ends;
  for (std::size_t k = 0; k < position.next; ++k) {
    for (const std::int64_t end : segments[k].ends) ends.push_back(updates + end);
    updates += segments[k].updates();
  }
  if (position.updates != updates)
    return "says " + std::to_string(position.updates) + " updates, so far the case has " + std::to_string(updates);
  std::vector<std::int64_t> steps;
  for (const CurvePoint& point : record.curve) steps.push_back(point.step);
  if (record.outcome != RecordOutcome::ok || steps != ends)
    return "has a learning curve of another length than its training";
  if (!(position.seconds >= 0) || position.seconds > kMaxSeconds) return "has no possible time of training";
  return "";
}

void Checkpoints::delete_all() const {
  std::error_code ignored;
  if (folder_.empty() || !leads() || !std::filesystem::exists(folder_, ignored)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
    if (entry.path().filename().string().starts_with(digest_ + ".")) std::filesystem::remove(entry.path(), ignored);
}

}  // namespace sluice
