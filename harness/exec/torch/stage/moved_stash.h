// MovedStash: a stash in transit to the host's memory and back (harness/pipeline/offload.h). Whole storages move, each
// once for any number of views; storages that are also referenced outside the stash stay on the device. On the CPU the
// host's memory is a pool that is counted separately (MemoryCounters::add_host), and a copy ends when its call returns;
// on a GPU it is pinned, and copies run on a second stream of the rank.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/exec/torch/stage/memory_counter.h"
#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {

// Call in this order, always with the same stash.
class MovedStash {
 public:
  // Begins the copy to the host. device: null on the CPU.
  MovedStash(const StageStashTensors& stash, MemoryCounters* counters, RankDevice* device);
  ~MovedStash();  // frees the host's memory
  MovedStash(const MovedStash&) = delete;

  void free(StageStashTensors& stash);        // frees the device's memory, once the copy has ended
  void bring_back(StageStashTensors& stash);  // allocates memory on the device again and begins the copy back
  void wait();                                // until the stash can be read

  std::int64_t bytes() const { return bytes_; }

 private:
  struct Place {  // place of a tensor in the stash
    std::size_t layer, kept;
  };
  struct View {  // a tensor of a storage that moves, and all its places
    std::vector<Place> places;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    at::TensorOptions options;
  };
  struct Moved {
    at::Tensor host;  // the whole storage, as bytes
    std::vector<View> views;
  };

  std::vector<Moved> all_;
  MemoryCounters* counters_;
  RankDevice* device_;
  RankDevice::Event copied_;
  std::int64_t bytes_ = 0;
};

}  // namespace sluice
