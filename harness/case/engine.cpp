#include "harness/case/engine.h"

#include <sluice_build.h>

#include "harness/base/error.h"

namespace sluice::engine {

#ifdef SLUICE_HAVE_TORCH

bool available() { return true; }
std::string torch() { return torch_version(); }
std::unique_ptr<Session> session(const SessionSpec& spec) { return make_session(spec); }
std::string refusal(const std::string& device) { return device == "cuda" ? cuda_refusal() : ""; }
nlohmann::json cuda() { return describe_cuda(); }
CostGraph measure(const ModelGraph& model, std::int64_t micro_batch, const std::string& device) {
  return measure_costs(model, micro_batch, 7, device);
}

#else

[[noreturn]] static void refuse() {
  throw InputError("", "this build has no real executor",
                   "build it with -DSLUICE_TORCH=ON, or use --clock virtual --costs analytic with "
                   "\"train\": false");
}
bool available() { return false; }
std::string torch() { return "none"; }
std::unique_ptr<Session> session(const SessionSpec&) { refuse(); }
std::string refusal(const std::string& device) {
  return device == "cuda" ? "this build has no real executor; build it with -DSLUICE_TORCH=ON" : "";
}
nlohmann::json cuda() { return nullptr; }
CostGraph measure(const ModelGraph&, std::int64_t, const std::string&) { refuse(); }

#endif

}  // namespace sluice::engine
