#include "harness/cli/gpu_program.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "harness/base/error.h"
#include "harness/exec/session.h"

namespace sluice {

// The arguments this process was started with, as the kernel keeps them.
static std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < all.size(); begin = all.find('\0', begin) + 1)
    arguments.emplace_back(all.c_str() + begin);
  return arguments;
}

void need_device(DeviceKind device) {
  const std::string rejection = device == DeviceKind::cuda ? cuda_rejection() : "";
  if (rejection.empty()) return;
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::filesystem::path other = self.parent_path() / "sluice-cuda";
  if (!none && self.filename() == "sluice" && std::filesystem::exists(other, none)) {
    std::vector<std::string> arguments = own_arguments();
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    ::execv(other.c_str(), pointers.data());  // returns only where it cannot be started
  }
  throw InputError("--device " + choice_name(device), rejection);
}

}  // namespace sluice
