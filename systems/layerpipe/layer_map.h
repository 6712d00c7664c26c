// Which processor runs which task of a layer group: LayerPipe's map, as we read it. The tasks of a group of layers are
// its forward F, its input gradient I and its weight gradient W, and the first two stay together on the group's own
// processor. W waits for nobody but I and nobody waits for it within a micro-batch, so it may run anywhere. Where a
// group begins with a product (LayerCost::input_channels), the processor of the group before it may compute a part of
// that product's input gradient: the channels that are passed on.
//
// The period of the pipe is the time of the most loaded processor; what a task that leaves its group's processor is
// sent must be through the link within it. The search makes it small: for every number of groups, cuts that are
// balanced in several ways and then moved one by one while that helps; for given cuts, the least period at which every
// group passes on no more than it must and a list schedule of the W (the longest first; on the group's own processor if
// it fits there, else on the least loaded one) fits.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// Seconds of one micro-batch, of layers that are cut apart nowhere inside.
struct LayerTasks {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  // If a group begins with it: the input channels of its first product, and the seconds of that product's input
  // gradient. 0 channels: it cannot be divided.
  int channels = 0;
  double product_input_gradient = 0;
  // Seconds on a link: of what its W is sent where that runs elsewhere, and of what the product's input gradient is.
  double stash_message = 0, product_message = 0;
};

struct LayerMap {
  std::vector<int> first;            // of every group: its first layer; the number of layers at the end
  std::vector<int> weight_gradient;  // of every group: the processor of its W; the group's own has its number
  std::vector<int> passed_channels;  // of every group
  double period = 0;                 // seconds of the most loaded processor or the longest message
  int groups() const { return static_cast<int>(weight_gradient.size()); }
};

// The best map for these cuts. `divides`: groups may pass channels on.
LayerMap map_groups(const std::vector<LayerTasks>& layers, const std::vector<int>& first, int processors, bool divides);

// The best map found for every number of groups and of processors that they use, up to `processors`: with fewer there
// are fewer messages. `evaluated` counts the cuts looked at.
std::vector<LayerMap> layer_maps(const std::vector<LayerTasks>& layers, int processors, bool divides,
                                 std::int64_t* evaluated = nullptr);

}  // namespace sluice
