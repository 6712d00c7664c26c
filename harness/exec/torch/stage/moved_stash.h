// MovedStash: a stash on its way to the host's memory and back (harness/pipeline/offload.h). Whole storages move, each
// once however many tensors are views of it; what something outside the stash holds, too, stays on the device. On the
// CPU the host's memory is a pool that is counted apart (MemoryCounters::add_host), and a copy is over when its call
// returns; on a GPU it is pinned, and copies run on a second stream of the rank.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/exec/torch/stage/memory_counter.h"
#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {

// Its calls follow one another as they stand here, always with the same stash.
class MovedStash {
 public:
  // Begins the way out. device: null on the CPU.
  MovedStash(const StageStashTensors& stash, MemoryCounters* counters, RankDevice* device);
  ~MovedStash();  // gives the host's memory back
  MovedStash(const MovedStash&) = delete;

  void free(StageStashTensors& stash);        // the device's memory, once the copy is there
  void bring_back(StageStashTensors& stash);  // takes memory on the device again and begins the way back
  void wait();                                // until the stash can be read

  std::int64_t bytes() const { return bytes_; }

 private:
  struct Place {  // where in the stash a tensor stands
    std::size_t layer, kept;
  };
  struct View {  // a tensor of a storage that moves, and all the places that hold it
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
