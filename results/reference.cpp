#include "results/reference.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "harness/base/error.h"
#include "results/metrics.h"

namespace sluice {
namespace {

void keep_fullest(std::vector<MemorySplit>& ranks) {
  if (ranks.size() < 2) return;
  ranks = {*std::ranges::max_element(ranks, {}, &MemorySplit::total)};
}

}  // namespace

Record reference_record(Record record, const std::string& command) {
  record.timeline.clear();
  if (record.clock == "virtual" && !record.peak_bytes.empty()) record.predicted_peak_bytes.clear();
  keep_fullest(record.peak_bytes);
  keep_fullest(record.predicted_peak_bytes);
  if (const auto stages = record.plan.find("stages"); stages != record.plan.end() && stages->is_array())
    for (nlohmann::json& stage : *stages)
      if (stage.is_object()) stage.erase("layers");
  record.environment["command"] = command;
  return record;
}

void write_reference(const std::filesystem::path& file, std::span<const Record> records, const std::string& command) {
  std::vector<Record> kept = latest(records);
  std::ranges::stable_sort(kept, [](const Record& a, const Record& b) {
    return std::tie(a.system, a.workload, a.cluster, a.ranks, a.batch, a.microbatches, a.options, a.seed) <
           std::tie(b.system, b.workload, b.cluster, b.ranks, b.batch, b.microbatches, b.options, b.seed);
  });
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  for (Record& record : kept)
    out << to_json(reference_record(std::move(record), command))
               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
        << '\n';
  out.flush();
  if (!out) throw RunError(file.string() + ": cannot be written; is the disk full?");
}

}  // namespace sluice
