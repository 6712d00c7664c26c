#include "harness/case/model_work.h"

#include <algorithm>

#include "harness/model/training_work.h"

namespace sluice {

std::optional<ModelWork> model_work(const RunCase& c, const Prepared& p) {
  const ModelGraph& model = p.workload->model;
  if (model.layers.empty()) return std::nullopt;
  ModelWork work{.tokens = tokens_per_sample(model),
                 .flop = model_flop_per_sample(model, p.inference).value,
                 .devices = p.system->one_process ? 1 : c.ranks};
  if (work.flop == 0) return std::nullopt;
  if (is_this_machine(c)) return work;
  // The devices that are used, and as many of the others, in order, as were given.
  std::vector<DeviceId> given = p.ranks.devices;
  for (std::size_t d = 0; d < p.cluster.devices.size() && std::ssize(given) < work.devices; ++d)
    if (std::ranges::find(given, DeviceId(d)) == given.end()) given.push_back(DeviceId(d));
  double peak = 0;
  for (const DeviceId device : given) {
    const Device& own = p.cluster.devices[device.index()];
    peak += own.peak(p.storage) * own.speed;
  }
  work.peak_flops = peak;
  return work;
}

}  // namespace sluice
