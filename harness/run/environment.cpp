#include "harness/run/environment.h"

#include <sys/utsname.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "harness/base/source_folder.h"
#include "harness/case/real_executor.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"

namespace sluice {

static std::string command_output(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 256> buffer;
  while (pipe && fgets(buffer.data(), buffer.size(), pipe.get())) text += buffer.data();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

static std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

nlohmann::json describe_environment() {
  static const nlohmann::json fixed = [] {
    nlohmann::json json;
    const std::string commit = command_output("git -C '" + source_folder() + "' describe --always --dirty 2>/dev/null");
    json["commit"] = commit.empty() ? "unknown" : commit;
    json["compiler"] = std::string("g++ ") + __VERSION__;
    json["torch"] = real_executor::torch_version();
    json["nccl"] = nullptr;
    json["mpi"] = mpi_built() ? nlohmann::json(mpi_library()) : nlohmann::json(nullptr);
    json["hwloc"] = hwloc_built() ? nlohmann::json(hwloc_library()) : nlohmann::json(nullptr);
    json["cpu"] = cpu_name();
    json["cores"] = std::thread::hardware_concurrency();
    json["gpu"] = nullptr;
    if (const nlohmann::json cuda = real_executor::gpus(); !cuda.is_null()) {
      json["nccl"] = cuda["nccl"];
      if (!cuda["devices"].empty()) json["gpu"] = cuda["devices"];
      json["cuda"] = {{"driver", cuda["driver"]}, {"runtime", cuda["runtime"]}};
    }
    utsname system{};
    uname(&system);
    json["kernel"] = system.release;
    return json;
  }();
  nlohmann::json json = fixed;
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) json["load"] = load[0];
  return json;
}

}  // namespace sluice
