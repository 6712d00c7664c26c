#include "harness/exec/torch/session/device_transport.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <condition_variable>
#include <mutex>

#include "harness/exec/threads.h"

namespace sluice {

namespace {

// The replicas of a stage. The others read what a member publishes between two barriers.
class Group {
 public:
  struct Member {
    void* data = nullptr;
    RankDevice::Event ready, done;
  };
  explicit Group(std::size_t count) : members(count) {}

  std::vector<Member> members;

  void barrier() {
    std::unique_lock lock(mutex_);
    if (aborted_) throw TransportAborted();
    const int round = round_;
    if (++arrived_ == members.size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || aborted_; });
    if (round_ == round) throw TransportAborted();
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  int round_ = 0;
  bool aborted_ = false;
};

class DeviceThreadTransport : public Transport {
 public:
  DeviceThreadTransport(const Program& program, std::vector<RankDevice*> devices)
      : messages_(make_thread_transport(program)), ranks_(collective_groups(program)), devices_(std::move(devices)) {
    for (const auto& ranks : ranks_) groups_.push_back(std::make_unique<Group>(ranks.size()));
  }

  void send(int channel, Message message) override { messages_->send(channel, std::move(message)); }
  Message receive(int channel) override { return messages_->receive(channel); }

  // Every member sums one slice over all and writes the sum back to all.
  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    const Part part{count * static_cast<std::size_t>(member) / members(group),
                    count * (static_cast<std::size_t>(member) + 1) / members(group), type};
    on_all_members(
        group, member, data,
        [&](const std::vector<at::Tensor>& all) {
          const at::Tensor sum = sum_of(all, group, member);
          for (const at::Tensor& slice : all) at::Tensor(slice).copy_(sum);
        },
        [&](std::size_t) { return part; });
  }
  void all_gather(int group, int member, const Shard& /*own*/, void* data, std::size_t count,
                  ElementType type) override {
    // Slice k of member k, to the same place of the caller's.
    on_all_members(
        group, member, data,
        [&](const std::vector<at::Tensor>& all) {
          for (std::size_t k = 0; k < all.size(); ++k)
            if (k != static_cast<std::size_t>(member))
              view(data, device(group, static_cast<std::size_t>(member)), slice(k, count, type)).copy_(all[k]);
        },
        [&](std::size_t k) { return slice(k, count, type); });
  }
  void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) override {
    on_all_members(
        group, member, data,
        [&](const std::vector<at::Tensor>& all) { at::Tensor(all[member]).copy_(sum_of(all, group, member)); },
        [&](std::size_t) { return slice(static_cast<std::size_t>(member), count, type); });
  }

  void abort() override {
    messages_->abort();
    for (const auto& group : groups_) group->abort();
  }

 private:
  struct Part {
    std::size_t first, last;
    ElementType type;
  };
  static Part slice(std::size_t k, std::size_t count, ElementType type) { return {k * count, (k + 1) * count, type}; }
  std::size_t members(int group) const { return ranks_[group].size(); }
  RankDevice& device(int group, std::size_t member) const { return *devices_[ranks_[group][member].index()]; }
  static at::Tensor view(void* data, const RankDevice& device, const Part& part) {
    const bool narrow = part.type == ElementType::float32;
    auto* begin = static_cast<char*>(data) + part.first * (narrow ? 4 : 8);
    return at::from_blob(begin, {static_cast<std::int64_t>(part.last - part.first)},
                         at::TensorOptions().dtype(narrow ? at::kFloat : at::kDouble).device(device.device()));
  }
  // In the order of the members, on the caller's device.
  at::Tensor sum_of(const std::vector<at::Tensor>& all, int group, int member) const {
    const at::Device here = device(group, static_cast<std::size_t>(member)).device();
    at::Tensor sum = all[0].to(here, /*non_blocking=*/true, /*copy=*/true);
    for (std::size_t k = 1; k < all.size(); ++k) sum.add_(all[k].to(here));
    return sum;
  }

  // Calls work with part_of(k) of every member k's data, queued behind everything that the members have queued so far;
  // what they queue afterwards comes behind it.
  void on_all_members(int group, int member, void* data, const auto& work, const auto& part_of) {
    const c10::InferenceMode no_autograd;
    Group& g = *groups_[group];
    const auto own = static_cast<std::size_t>(member);
    RankDevice& here = device(group, own);
    g.members[own].data = data;
    g.members[own].ready = here.record();
    g.barrier();
    std::vector<at::Tensor> parts;
    for (std::size_t k = 0; k < g.members.size(); ++k) {
      here.wait(g.members[k].ready);
      parts.push_back(view(g.members[k].data, device(group, k), part_of(k)));
    }
    work(parts);
    g.members[own].done = here.record();
    g.barrier();
    for (const Group::Member& other : g.members) here.wait(other.done);
  }

  std::unique_ptr<Transport> messages_;
  std::vector<std::vector<Rank>> ranks_;  // by group
  std::vector<RankDevice*> devices_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace

std::unique_ptr<Transport> make_device_thread_transport(const Program& program, std::vector<RankDevice*> devices) {
  return std::make_unique<DeviceThreadTransport>(program, std::move(devices));
}

}  // namespace sluice
