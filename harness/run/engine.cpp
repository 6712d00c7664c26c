#include "harness/run/engine.h"

#include "harness/core/error.h"

namespace sluice::engine {

#ifdef SLUICE_HAVE_TORCH

bool available() { return true; }
std::string torch() { return torch_version(); }
std::unique_ptr<Session> session(const SessionSpec& spec) { return make_session(spec); }
CostGraph measure(const ModelGraph& model, std::int64_t micro_batch) {
  return measure_costs(model, micro_batch, 7);
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
CostGraph measure(const ModelGraph&, std::int64_t) { refuse(); }

#endif

}  // namespace sluice::engine
