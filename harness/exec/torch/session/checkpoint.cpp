#include "harness/exec/torch/session/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/read_text.h"
#include "harness/exec/checkpoint_header.h"

namespace sluice {

// A stage takes some 20 bytes a tensor.
constexpr std::uint64_t kLongestHeader = 1 << 26;

static std::span<const Bytef> content_of(const at::Tensor& tensor) {
  return {static_cast<const Bytef*>(tensor.const_data_ptr()), tensor.nbytes()};
}

static std::uint32_t checksum(const std::vector<CheckpointStage>& stages) {
  uLong sum = ::crc32_z(0, nullptr, 0);
  for (const CheckpointStage& stage : stages)
    for (const at::Tensor& tensor : stage.tensors) sum = ::crc32_z(sum, content_of(tensor).data(), tensor.nbytes());
  return static_cast<std::uint32_t>(sum);
}

void write_checkpoint(const Checkpoint& checkpoint, const std::string& path) {
  CheckpointHeader header{
      .of = checkpoint.of.dump(), .updates = checkpoint.updates, .checksum = checksum(checkpoint.stages), .stages = {}};
  for (const CheckpointStage& stage : checkpoint.stages) {
    header.stages.push_back({stage.numbers, {}});
    for (const at::Tensor& tensor : stage.tensors) header.stages.back().elements.push_back(tensor.numel());
  }
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file << to_line(header) << '\n';
  for (const CheckpointStage& stage : checkpoint.stages)
    for (const at::Tensor& tensor : stage.tensors)
      file.write(static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(part, path, error);
  if (file && !error) return;
  const std::string why = errno_text(error ? error.value() : errno);
  std::filesystem::remove(part, error);
  throw InputError(path, "cannot be written: " + why);
}

// Throws InputError where the two are checkpoints of different things; any_plan: except for the plan.
static void compare_identity(const Json& found, const Json& wanted, bool any_plan, const std::string& path) {
  for (const auto& [key, value] : wanted.items()) {
    if (any_plan && key == "plan" && found.contains(key)) continue;
    if (!found.contains(key) || found.at(key) != value)
      throw InputError(path, "is a checkpoint of another " + key, "continue the run it was made by");
  }
  if (found.size() != wanted.size())
    throw InputError(path, "is a checkpoint of something else", "continue the run it was made by");
}

Checkpoint read_checkpoint(const std::string& path, const Json& of, const at::TensorOptions& options, bool any_plan) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw InputError(path, "cannot be read: " + errno_text(error.value()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path, "cannot be read: " + errno_text(errno));
  std::string line(std::min<std::uint64_t>(size, kLongestHeader), '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  const std::size_t end = line.find('\n');
  if (end == std::string::npos) throw InputError(path, "is no checkpoint: its first line does not end");
  line.resize(end);
  file.seekg(static_cast<std::streamoff>(end + 1));
  const auto element = static_cast<std::int64_t>(at::elementSize(at::typeMetaToScalarType(options.dtype())));
  const CheckpointHeader header = parse_checkpoint_header(line, path, size - (end + 1), element);
  Json found = Json::parse(header.of, path);
  compare_identity(found, of, any_plan, path);
  Checkpoint checkpoint{.of = std::move(found), .updates = header.updates, .stages = {}};
  for (const CheckpointHeader::Stage& described : header.stages) {
    CheckpointStage& stage = checkpoint.stages.emplace_back();
    stage.numbers = described.numbers;
    for (const std::int64_t n : described.elements) {
      at::Tensor& tensor = stage.tensors.emplace_back(at::empty({n}, options));
      file.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    }
  }
  if (!file) throw InputError(path, "is cut off");
  if (checksum(checkpoint.stages) != header.checksum)
    throw InputError(path, "was changed after it was written", "delete it, and the case starts anew");
  return checkpoint;
}

}  // namespace sluice
