// A rank's device for tests without a GPU: the CPU behind the interface of one. Queued work is done at once, so it
// tests the requests of the worker and the transports, not their waits.
#pragma once

#include <ATen/ATen.h>

#include <chrono>

#include "harness/exec/torch/stage/rank_device.h"

namespace sluice {

class FakeRankDevice : public RankDevice {
 public:
  int entered = 0, events = 0, waits = 0, uses = 0, copies = 0;

  at::Device device() const override { return at::kCPU; }
  void* stream() const override { return nullptr; }
  void enter() override { ++entered; }
  void synchronize() override {}
  void stay_busy() override {}
  Event record() override {
    ++events;
    return std::make_shared<int>(events);
  }
  void wait(const Event& event) override { waits += event ? 1 : 0; }
  // The host is far ahead: at its first call nothing has passed.
  bool passed(const Event&) override { return false; }
  void wait_on_host(const Event&) override {}
  at::Tensor from_host(const at::Tensor& tensor) override { return tensor.clone(); }
  at::Tensor to_host(const at::Tensor& tensor) override { return tensor.clone(); }
  at::Tensor host_memory(std::int64_t bytes) override { return at::empty({bytes}, at::kByte); }
  Event copy_beside(at::Tensor& to, const at::Tensor& from) override {
    ++copies;
    to.copy_(from);
    return record();
  }
  void used_here(const at::Tensor&) override { ++uses; }

  void start(double seconds) override {
    begin_ = Clock::now();
    begin_seconds_ = seconds;
    marks_.clear();
  }
  double mark() override {
    marks_.push_back(Clock::now());
    return static_cast<double>(marks_.size());
  }
  double seconds(double mark) override {
    if (mark == 0) return 0;
    return begin_seconds_ +
           std::chrono::duration<double>(marks_.at(static_cast<std::size_t>(mark) - 1) - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  double begin_seconds_ = 0;
  std::vector<Clock::time_point> marks_;
};

}  // namespace sluice
