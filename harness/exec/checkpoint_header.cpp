#include "harness/exec/checkpoint_header.h"

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/quantities.h"

namespace sluice {

static constexpr const char* kKind = "sluice checkpoint 2";

std::string to_line(const CheckpointHeader& header) {
  Json json = {{"kind", kKind},
               {"of", Json::parse(header.of)},
               {"updates", header.updates},
               {"checksum", header.checksum},
               {"stages", Json::array()}};
  for (const CheckpointHeader::Stage& stage : header.stages)
    json["stages"].push_back({{"numbers", stage.numbers}, {"elements", stage.elements}});
  return json.dump();
}

CheckpointHeader parse_checkpoint_header(const std::string& line, const std::string& path, std::uint64_t bytes_after,
                                         std::int64_t element) {
  const Json json = Json::parse_if_json(line).value_or(Json());
  if (!json.is_object() || json.value("kind", Json()) != kKind)
    throw InputError(path, "is no checkpoint of this version of sluice", "delete it, and the case starts anew");
  JsonReader reader(json, path, "", "delete it, and the case starts anew");
  reader.text("kind");
  CheckpointHeader header;
  header.of = reader.object("of").json().dump();
  header.updates = reader.integer<std::int64_t>("updates", 0, kMaxWhole);
  header.checksum = reader.integer<std::uint32_t>("checksum", 0, UINT32_MAX);
  std::int64_t bytes = 0;
  for (JsonReader& stage : reader.objects("stages")) {
    header.stages.push_back({stage.integers<std::int64_t>("numbers", -kMaxWhole, kMaxWhole),
                             stage.integers<std::int64_t>("elements", 0, kMaxWhole)});
    for (const std::int64_t n : header.stages.back().elements) bytes = exact_sum(bytes, exact_product(n, element));
    stage.no_other_keys();
  }
  reader.no_other_keys();
  if (static_cast<std::uint64_t>(bytes) > bytes_after) throw InputError(path, "is cut off");
  if (static_cast<std::uint64_t>(bytes) < bytes_after) throw InputError(path, "goes on after its last number");
  return header;
}

}  // namespace sluice
