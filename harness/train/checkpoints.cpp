#include "harness/train/checkpoints.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"

namespace sluice {

Checkpoints::Checkpoints(std::string folder, std::string digest, ProcessGroup* processes)
    : folder_(std::move(folder)), digest_(std::move(digest)), stem_(folder_ + "/" + digest_), processes_(processes) {}

void Checkpoints::save(const Session& session, const Record& record, const TrainingPosition& position) const {
  if (folder_.empty()) return;
  if (leads()) std::filesystem::create_directories(folder_);
  session.save(state_file(position.next));
  agree_on_error(processes_, [&] {
    if (leads()) write_record(record, position);
  });
}

void Checkpoints::write_record(const Record& record, const TrainingPosition& position) const {
  const std::string unfinished = record_file() + ".part";
  {
    std::ofstream out(unfinished);
    out << nlohmann::json{{"record", to_json(record)},
                          {"state", state_file(position.next)},
                          {"next", position.next},
                          {"updates", position.updates},
                          {"seconds", position.seconds}}
               .dump()
        << "\n";
    if (!out.flush()) throw InputError(record_file(), "cannot be written");
  }
  std::filesystem::rename(unfinished, record_file());
  std::filesystem::remove(state_file(position.next - 1));
}

TrainingPosition Checkpoints::restore(Session& session, Record& record) const {
  if (folder_.empty()) return {};
  nlohmann::json json;
  agree_on_error(processes_, [&] {
    if (leads() && std::filesystem::exists(record_file())) json = parse_json_file(record_file());
  });
  if (processes_) json = nlohmann::json::parse(processes_->broadcast(json.dump(), 0));
  if (json.is_null()) return {};
  JsonReader reader(json, record_file());
  Record restored = record_from_json(reader.raw("record"), record_file());
  TrainingPosition position;
  position.next = static_cast<std::size_t>(reader.integer("next", 1));
  session.load(reader.text("state"));
  position.updates = reader.integer("updates", 1);
  position.seconds = reader.number("seconds");
  restored.environment = record.environment;
  record = std::move(restored);
  return position;
}

void Checkpoints::delete_all() const {
  if (folder_.empty() || !leads() || !std::filesystem::exists(folder_)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with(digest_ + ".")) std::filesystem::remove(entry.path());
}

}  // namespace sluice
