#include "harness/run/environment.h"

#include <sys/utsname.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/base/json.h"
#include "harness/base/run_program.h"
#include "harness/base/source_folder.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/exec/session.h"

namespace sluice {

// Of the checkout that a folder lies in; "unknown" where there is none, or git does not answer.
static std::string commit_of(const std::string& folder) {
  // Without the variables by which a hook of another repository would name that one.
  const ProgramEnd end = run_program({"env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE", "git",
                                      "-C", folder, "describe", "--always", "--dirty"},
                                     {.limit = Seconds(5)});
  std::string text = end.ok() ? end.output : "";
  while (text.ends_with('\n')) text.pop_back();
  return text.empty() ? "unknown" : text;
}

// Of the checkout; a bundle (exec/torch/cuda/bundle) and an installation (harness/install) have it in a file. Then
// those of the folders of systems that are not part of it: "c4418f5+my_systems@1a2b3c4".
static std::string commit_name() {
  std::string text;
  if (std::ifstream in_file(source_folder() + "/commit"); in_file)
    std::getline(in_file, text);
  else
    text = commit_of(source_folder());
  if (text.empty()) text = "unknown";
  for (const std::string& folder : extra_system_folders())
    text += "+" + std::filesystem::path(folder).filename().string() + "@" + commit_of(folder);
  return text;
}

static std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

// Of CUDA's versions and devices, as describe_cuda() (exec/session.h) has them; null: a program without CUDA.
static void add_gpus(Environment::Machine& machine, const Json& cuda) {
  if (cuda.is_null()) return;
  machine.nccl = {.header = cuda["nccl"]["header"].get<std::string>(),
                  .library = cuda["nccl"]["library"].get<std::string>()};
  for (const Json& gpu : cuda["devices"])
    machine.gpus.push_back({.name = gpu["name"].get<std::string>(),
                            .memory_bytes = gpu["memory_bytes"].get<std::uint64_t>(),
                            .compute_capability = gpu["compute_capability"].get<std::string>()});
  machine.cuda = {.runtime = cuda["runtime"].get<std::string>()};
  if (!cuda["driver"].is_null()) machine.cuda->driver = cuda["driver"].get<std::string>();
}

Environment describe_environment() {
  static const Environment::Machine fixed = [] {
    Environment::Machine machine;
    machine.commit = commit_name();
    machine.compiler = std::string("g++ ") + __VERSION__;
    machine.torch = torch_version();
    if (mpi_built()) machine.mpi = mpi_library();
    if (hwloc_built()) machine.hwloc = hwloc_library();
    machine.cpu = cpu_name();
    machine.cores = static_cast<int>(std::thread::hardware_concurrency());
    add_gpus(machine, describe_cuda());
    utsname system{};
    uname(&system);
    machine.kernel = system.release;
    return machine;
  }();
  Environment environment{.machine = fixed};
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) environment.machine->load = load[0];
  return environment;
}

}  // namespace sluice
