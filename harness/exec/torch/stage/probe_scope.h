// ProbeScope: one sample of a probe, from its construction to its end. Without a probe it does nothing.
#pragma once

#include "harness/exec/probe.h"
#include "harness/exec/torch/stage/memory_counter.h"

namespace sluice {

class ProbeScope {
 public:
  ProbeScope(Probe* probe, MemoryCounters* counters, ProbeSample sample)
      : probe_(probe), counters_(counters), sample_(sample) {
    if (!probe_) return;
    mark_ = counters_->begin_window();
    sample_.start = Probe::now();
  }
  ~ProbeScope() {
    if (!probe_) return;
    sample_.end = Probe::now();
    const MemoryCounters::Window window = counters_->end_window(mark_);
    sample_.peak = window.peak;
    sample_.left = window.left;
    probe_->add(sample_);
  }
  ProbeScope(const ProbeScope&) = delete;
  void add_bytes(std::int64_t bytes) { sample_.bytes += bytes; }

 private:
  Probe* probe_;
  MemoryCounters* counters_;
  ProbeSample sample_;
  MemoryCounters::Mark mark_;
};

}  // namespace sluice
