#include "harness/exec/torch/session/checkpoint.h"

#include <filesystem>
#include <fstream>

#include "harness/base/error.h"

namespace sluice {

constexpr const char* kKind = "sluice checkpoint 1";

void write_checkpoint(const Checkpoint& checkpoint, const std::string& path) {
  nlohmann::json header = {{"kind", kKind}, {"of", checkpoint.of}, {"updates", checkpoint.updates}};
  for (const CheckpointStage& stage : checkpoint.stages) {
    nlohmann::json elements = nlohmann::json::array();
    for (const at::Tensor& tensor : stage.tensors) elements.push_back(tensor.numel());
    header["stages"].push_back({{"numbers", stage.numbers}, {"elements", elements}});
  }
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary);
    file << header.dump() << '\n';
    for (const CheckpointStage& stage : checkpoint.stages)
      for (const at::Tensor& tensor : stage.tensors)
        file.write(static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    file.flush();
    if (!file) {
      std::error_code ignored;
      std::filesystem::remove(part, ignored);
      throw InputError(path, "cannot be written", "is the folder there, and the disk not full?");
    }
  }
  std::filesystem::rename(part, path);
}

Checkpoint read_checkpoint(const std::string& path, const nlohmann::json& of, const at::TensorOptions& options) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path, "cannot be opened");
  std::string line;
  std::getline(file, line);
  const nlohmann::json header = nlohmann::json::parse(line, nullptr, false);
  if (!header.is_object() || header.value("kind", "") != kKind)
    throw InputError(path, "is no checkpoint of this program");
  if (header.at("of") != of)
    for (const auto& item : of.items())
      if (!header.at("of").contains(item.key()) || header.at("of").at(item.key()) != item.value())
        throw InputError(path, "is a checkpoint of another " + item.key(), "continue the run it was made by");
  Checkpoint checkpoint{.of = of, .updates = header.at("updates").get<std::int64_t>(), .stages = {}};
  for (const nlohmann::json& described : header.at("stages")) {
    CheckpointStage& stage = checkpoint.stages.emplace_back();
    stage.numbers = described.at("numbers").get<std::vector<std::int64_t>>();
    for (const std::int64_t n : described.at("elements").get<std::vector<std::int64_t>>()) {
      at::Tensor& tensor = stage.tensors.emplace_back(at::empty({n}, options));
      file.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    }
  }
  if (!file) throw InputError(path, "is cut off");
  return checkpoint;
}

}  // namespace sluice
