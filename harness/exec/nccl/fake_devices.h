// Devices and NCCL for tests, on threads: a stream is a thread that does one thing after another, a
// send waits on its stream for the receive, the first message of a communicator keeps both ends
// busy until both have begun it, an abort frees one member only. Memory is the process's.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "harness/exec/nccl/device_calls.h"

namespace sluice {

class FakeDevices : public DeviceCalls {
 public:
  ~FakeDevices() override {
    std::vector<FakeStream*> left;
    for (const auto& stream : streams_)
      if (stream->thread.joinable()) left.push_back(stream.get());
    for (FakeStream* stream : left) drop_stream(stream);
  }

  // Tests: work on a stream, and an error that NCCL finds by itself on a member of a communicator.
  void launch(Stream stream, std::function<void()> work) {
    auto& s = *static_cast<FakeStream*>(stream);
    const std::lock_guard lock(s.mutex);
    s.work.push_back(std::move(work));
    s.changed.notify_all();
  }
  void break_member(const NcclId& id, int member, const std::string& error) {
    World& world = world_of(id);
    const std::lock_guard lock(world.mutex);
    world.errors[member] = error;
  }
  void synchronize(const Event& event) {
    auto& e = *static_cast<Flag*>(event.get());
    std::unique_lock lock(e.mutex);
    e.changed.wait(lock, [&] { return e.set; });
  }

  void use_device(int) override {}
  Stream make_stream() override {
    auto owned = std::make_unique<FakeStream>();
    FakeStream* stream = owned.get();
    stream->thread = std::thread([stream] { stream->run(); });
    const std::lock_guard lock(mutex_);
    streams_.push_back(std::move(owned));
    return stream;
  }
  void drop_stream(Stream stream) override {
    auto& s = *static_cast<FakeStream*>(stream);
    {
      const std::lock_guard lock(s.mutex);
      s.ended = true;
    }
    s.changed.notify_all();
    s.thread.join();
  }
  Event record(Stream stream) override {
    auto flag = std::make_shared<Flag>();
    launch(stream, [flag] { flag->raise(); });
    return flag;
  }
  void wait(Stream stream, const Event& event) override {
    launch(stream, [this, event] { synchronize(event); });
  }
  bool passed(const Event& event) override {
    auto& e = *static_cast<Flag*>(event.get());
    const std::lock_guard lock(e.mutex);
    return e.set;
  }

  NcclId make_id() override {
    const std::lock_guard lock(mutex_);
    NcclId id{};
    const int number = ++ids_;
    std::memcpy(id.data(), &number, sizeof number);
    return id;
  }
  Comm connect(const NcclId& id, int members, int member) override {
    World& world = world_of(id);
    const std::lock_guard lock(mutex_);
    comms_.push_back(std::make_unique<FakeComm>(FakeComm{&world, member}));
    const std::lock_guard world_lock(world.mutex);
    world.members = members;
    ++world.joined;
    return comms_.back().get();
  }
  State state(Comm comm) override {
    const auto& c = *static_cast<FakeComm*>(comm);
    const std::lock_guard lock(c.world->mutex);
    if (const auto error = c.world->errors.find(c.member); error != c.world->errors.end())
      return {State::Kind::failed, error->second};
    const bool meeting = c.world->begun[c.member] && !c.world->begun[1 - c.member];
    const bool waits = c.world->joined < c.world->members || (c.world->channel && meeting);
    return {waits ? State::Kind::in_progress : State::Kind::ready, ""};
  }
  void send(Comm comm, int to, const std::vector<DeviceBuffer>& buffers, Stream stream) override {
    auto& c = *static_cast<FakeComm*>(comm);
    begin_message(c);
    launch(stream, [&c, to, buffers] {
      World& world = *c.world;
      std::unique_lock lock(world.mutex);
      world.offered = &buffers;
      world.offered_to = to;
      world.changed.notify_all();
      world.changed.wait(lock, [&] { return !world.offered || world.aborted[c.member]; });
      world.offered = nullptr;
    });
  }
  void receive(Comm comm, int, const std::vector<DeviceBuffer>& buffers, Stream stream) override {
    auto& c = *static_cast<FakeComm*>(comm);
    begin_message(c);
    launch(stream, [&c, buffers] {
      World& world = *c.world;
      std::unique_lock lock(world.mutex);
      world.changed.wait(lock,
                         [&] { return (world.offered && world.offered_to == c.member) || world.aborted[c.member]; });
      if (!world.offered) return;
      for (std::size_t k = 0; k < buffers.size(); ++k)
        if (buffers[k].bytes > 0) std::memcpy(buffers[k].data, world.offered->at(k).data, buffers[k].bytes);
      world.offered = nullptr;
      world.changed.notify_all();
    });
  }
  void collective(Reach reach, Comm comm, int member, void* data, std::size_t count, ElementType type,
                  Stream stream) override {
    auto& c = *static_cast<FakeComm*>(comm);
    launch(stream, [&c, reach, member, data, count, type] {
      World& world = *c.world;
      std::unique_lock lock(world.mutex);
      world.data.resize(world.members);
      world.data[member] = data;
      const int round = world.round;
      if (++world.arrived == world.members) {
        if (type == ElementType::float32)
          exchange<float>(world, reach, count);
        else
          exchange<double>(world, reach, count);
        world.arrived = 0;
        ++world.round;
        world.changed.notify_all();
      } else {
        world.changed.wait(lock, [&] { return world.round != round || world.aborted[member]; });
      }
    });
  }
  DeviceBuffer scratch() override {
    thread_local char byte = 0;
    return {&byte, 1};
  }
  void abort(Comm comm) override {
    const auto& c = *static_cast<FakeComm*>(comm);
    const std::lock_guard lock(c.world->mutex);
    c.world->aborted[c.member] = true;
    c.world->changed.notify_all();
  }

 private:
  struct Flag {
    std::mutex mutex;
    std::condition_variable changed;
    bool set = false;
    void raise() {
      const std::lock_guard lock(mutex);
      set = true;
      changed.notify_all();
    }
  };
  struct FakeStream {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool ended = false;
    std::thread thread;
    void run() {
      std::unique_lock lock(mutex);
      for (;;) {
        changed.wait(lock, [&] { return ended || !work.empty(); });
        if (work.empty()) return;
        const std::function<void()> next = std::move(work.front());
        work.pop_front();
        lock.unlock();
        next();
        lock.lock();
      }
    }
  };
  struct World {  // what the members of a communicator share
    std::mutex mutex;
    std::condition_variable changed;
    int members = 0, joined = 0;
    bool channel = false;
    std::map<int, bool> begun, aborted;
    std::map<int, std::string> errors;
    const std::vector<DeviceBuffer>* offered = nullptr;
    int offered_to = 0;
    std::vector<void*> data;
    int arrived = 0, round = 0;
  };
  struct FakeComm {
    World* world;
    int member;
  };

  World& world_of(const NcclId& id) {
    const std::lock_guard lock(mutex_);
    auto& world = worlds_[id];
    if (!world) world = std::make_unique<World>();
    return *world;
  }
  static void begin_message(const FakeComm& c) {
    const std::lock_guard lock(c.world->mutex);
    c.world->channel = true;
    c.world->begun[c.member] = true;
  }
  template <class T>
  static void exchange(World& world, Reach reach, std::size_t count) {
    const auto n = world.data.size();
    const auto of = [&](std::size_t member) { return static_cast<T*>(world.data[member]); };
    if (reach == Reach::gather) {
      for (std::size_t from = 0; from < n; ++from)
        for (std::size_t to = 0; to < n; ++to)
          if (from != to) std::copy_n(of(from) + from * count, count, of(to) + from * count);
      return;
    }
    const std::size_t all = reach == Reach::reduce ? count : n * count;
    std::vector<T> sum(all);
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < all; ++i) sum[i] += of(k)[i];
    for (std::size_t k = 0; k < n; ++k) {
      if (reach == Reach::reduce)
        std::ranges::copy(sum, of(k));
      else
        std::copy_n(sum.data() + k * count, count, of(k) + k * count);
    }
  }

  std::mutex mutex_;
  int ids_ = 0;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::unique_ptr<FakeComm>> comms_;
  std::map<NcclId, std::unique_ptr<World>> worlds_;
};

}  // namespace sluice
