#include "harness/exec/training_library.h"

#include <dlfcn.h>
#include <sluice_build.h>

#include <atomic>
#include <filesystem>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"

namespace sluice {

static std::atomic<const TrainingLibrary*> registered = nullptr;

TrainingLibrary register_training_library(const TrainingLibrary& library) {
  static TrainingLibrary copy;
  registered = library == TrainingLibrary{} ? nullptr : &copy;
  return std::exchange(copy, library);
}

std::string training_library_path() {
  std::error_code none;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  const auto installed = folder.parent_path() / "lib" / "sluice" / "libsluice_training.so";
  return (std::filesystem::exists(installed, none) ? installed : folder / "libsluice_training.so").string();
}

#ifdef SLUICE_TORCH_VERSION
std::string torch_version() { return SLUICE_TORCH_VERSION; }

static const TrainingLibrary& training_library() {
  // Opened once, also where ranks are threads. Its initialiser registers it.
  static const std::string error = [] {
    if (registered || ::dlopen(training_library_path().c_str(), RTLD_NOW | RTLD_GLOBAL)) return std::string();
    return std::string(::dlerror());
  }();
  if (registered) return *registered;
  throw InputError("", "training needs libsluice_training.so, which cannot be opened: " + error,
                   "build or install sluice again");
}
#else
std::string torch_version() { return "none"; }

static const TrainingLibrary& training_library() {
  throw InputError("", "this build is torch-free: it has no real executor",
                   "build it with -DSLUICE_TORCH=ON, or use --clock virtual --costs analytic --no-train (in a sweep: "
                   "\"train\": false)");
}
#endif

std::unique_ptr<Session> make_session(const SessionSpec& spec) { return training_library().make_session(spec); }

CostGraph measure_costs(const ModelGraph& model, std::int64_t micro_batch, int repeats, const std::string& device) {
  return training_library().measure_costs(model, micro_batch, repeats, device);
}

CostGraph measure_in_runs(const RunProfileSpec& spec) { return training_library().measure_in_runs(spec); }

BetweenProcesses measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes) {
  return training_library().measure_between_processes(spec, processes);
}

CoRunSamples measure_co_runs(const CoRunSpec& spec) { return training_library().measure_co_runs(spec); }

std::string cuda_rejection() {
#ifdef SLUICE_TORCH_VERSION
  if (registered) return registered.load()->cuda_rejection();
  return "this program has no CUDA; build the one that has with -DSLUICE_CUDA=ON (harness/exec/README.md: GPUs)";
#else
  return "this build is torch-free: it has no real executor; build it with -DSLUICE_TORCH=ON";
#endif
}

// Of a library that is yet to be opened nothing is asked: only sluice-cuda, which has it linked in, has CUDA.
Json describe_cuda() { return registered ? registered.load()->describe_cuda() : Json(nullptr); }

}  // namespace sluice
