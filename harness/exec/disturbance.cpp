#include "harness/exec/disturbance.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Sleeps until a little before the moment, which the operating system may overshoot, and looks at the clock from there.
void wait_until(Clock::time_point moment) {
  constexpr auto kOvershoot = std::chrono::microseconds(80);
  if (moment - Clock::now() > kOvershoot) std::this_thread::sleep_until(moment - kOvershoot);
  while (Clock::now() < moment) std::this_thread::yield();
}

}  // namespace

PiecewiseSpeed Disturbance::pace_of(Rank rank) const {
  const DeviceId device = devices.at(rank.index());
  PiecewiseSpeed speed;
  if (!by_load) speed = interference.device_speed(device).from(start);
  if (!slowdowns.empty() && slowdowns.at(device.index()) > 1)
    speed = PiecewiseSpeed::product(
        speed, PiecewiseSpeed({{std::numeric_limits<double>::lowest(), 1 / slowdowns[device.index()]}}));
  return speed;
}

PiecewiseSpeed Disturbance::link_speed(Rank from, Rank to) const {
  return interference.link_speed(devices.at(from.index()), devices.at(to.index())).from(start);
}

void Pacer::begin(double now) {
  begin_ = now;
  worked_ = thread_seconds();
}

void Pacer::end() {
  const double worked = thread_seconds() - worked_;
  const double longer = speed_.finish(begin_, worked) - begin_ - worked;
  if (longer > 0)
    wait_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(longer)));
}

namespace {

// Threads of a load that slows a rank by `factor`: each of them competes for the core as the rank does.
int load_threads(double slowdown) {
  return slowdown > 1 ? std::max(1, static_cast<int>(std::ceil(slowdown - 1e-9)) - 1) : 0;
}

}  // namespace

double load_share(double slowdown, int number) {
  const int threads = load_threads(slowdown);
  return number < threads ? (1 - 1 / slowdown) / threads : 0;
}

struct CoRunningLoad::State {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
};

namespace {

// A slice of work of about a tenth of a millisecond to a millisecond.
class LoadWork {
 public:
  explicit LoadWork(Resource resource) : resource_(resource) {
    if (resource == Resource::memory) stream_.assign(std::size_t{8} << 20, 1.0);  // 64 MiB: no cache holds it
  }
  void slice() {
    switch (resource_) {
      case Resource::memory: {
        constexpr std::size_t kPart = std::size_t{1} << 16;
        for (std::size_t k = at_; k < at_ + kPart; ++k) stream_[k] += 1;
        at_ = (at_ + kPart) % stream_.size();
        return;
      }
      case Resource::allocation: {
        constexpr std::size_t kBytes = std::size_t{1} << 20;
        void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) return;
        for (std::size_t k = 0; k < kBytes; k += 4096) static_cast<volatile char*>(pages)[k] = 1;
        munmap(pages, kBytes);
        return;
      }
      default:
        for (int k = 0; k < 100'000; ++k) value_ = value_ * 1.0000001 + 1e-9;
        sink_.store(value_, std::memory_order_relaxed);
    }
  }

 private:
  Resource resource_;
  std::vector<double> stream_;
  std::size_t at_ = 0;
  double value_ = 1;
  std::atomic<double> sink_{0};
};

// Thread `number` of those that together leave a rank the part `speed` of its core.
void run_load(const PiecewiseSpeed& speed, Resource resource, int number, Clock::time_point start,
              const std::atomic<bool>& done) {
  LoadWork work(resource);
  constexpr double kWindow = 0.02;  // seconds over which the share is kept
  while (!done.load(std::memory_order_relaxed)) {
    const double now = seconds_since(start), share = load_share(1 / speed.at(now), number);
    if (share < 1e-6) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    const double worked = thread_seconds();
    while (seconds_since(start) - now < kWindow && thread_seconds() - worked < share * kWindow) work.slice();
    const double left = kWindow - (seconds_since(start) - now);
    if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
  }
}

}  // namespace

CoRunningLoad::CoRunningLoad(const Disturbance& disturbance, const std::vector<Rank>& ranks, const Pinning* pinning)
    : state_(std::make_unique<State>()) {
  const Clock::time_point start = Clock::now();
  for (const Rank rank : ranks)
    for (const Resource resource : {Resource::compute, Resource::memory, Resource::allocation}) {
      Interference of_resource;
      for (const Episode& e : disturbance.interference.episodes)
        if (e.resource == resource) of_resource.episodes.push_back(e);
      const PiecewiseSpeed speed =
          of_resource.device_speed(disturbance.devices.at(rank.index())).from(disturbance.start);
      double slowest = 1;
      for (const auto& change : speed.changes()) slowest = std::min(slowest, change.speed);
      for (int k = 0; k < load_threads(1 / slowest); ++k)
        state_->threads.emplace_back([this, speed, resource, k, start, rank, pinning] {
          if (pinning) pinning->bind(rank);
          run_load(speed, resource, k, start, state_->done);
        });
    }
}

CoRunningLoad::~CoRunningLoad() {
  state_->done.store(true);
  for (std::thread& thread : state_->threads) thread.join();
}

}  // namespace sluice
