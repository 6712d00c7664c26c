#include "harness/model/module_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/read_text.h"

namespace sluice {

std::string module_path(const LayerSpec& layer) {
  const auto& module = std::get<Module>(layer.kind);
  return (std::filesystem::path(module.folder) / module.file).string();
}

std::string module_digest(std::string_view content) {
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

namespace {

// A Module's file, and what to do where it is not what it should be.
struct File {
  std::string path, advice;
  explicit File(const LayerSpec& layer) : path(module_path(layer)) {
    advice = "layer '" + layer.name +
             "' (Module) has its TorchScript and weights there; write them again, with the model file, by "
             "workloads/import_pytorch.py --layers";
  }
  [[noreturn]] void fail(const std::string& what) const { throw InputError(path, what, advice); }
  void require_size(const LayerSpec& layer) const {
    std::error_code error;
    const std::uintmax_t found = std::filesystem::file_size(path, error);
    if (error) fail(errno_text(error.value()));
    const std::int64_t expected = std::get<Module>(layer.kind).bytes;
    if (found != static_cast<std::uintmax_t>(expected)) fail(fmt::format("has {} bytes, expected {}", found, expected));
  }
};

}  // namespace

std::string read_module_file(const LayerSpec& layer) {
  const File file(layer);
  file.require_size(layer);
  std::string content = read_text(file.path, static_cast<std::size_t>(std::get<Module>(layer.kind).bytes), file.advice);
  const std::string digest = module_digest(content);
  const std::string& expected = std::get<Module>(layer.kind).digest;
  if (digest != expected) file.fail(fmt::format("has the digest {}, expected {}", digest, expected));
  return content;
}

void require_module_files(const ModelGraph& model) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> known;
  for (const LayerSpec& layer : model.layers) {
    if (!std::holds_alternative<Module>(layer.kind)) continue;
    File(layer).require_size(layer);
    const std::pair read{module_path(layer), std::get<Module>(layer.kind).digest};
    const std::lock_guard lock(mutex);
    if (known.contains(read)) continue;
    read_module_file(layer);
    known.insert(read);
  }
}

}  // namespace sluice
