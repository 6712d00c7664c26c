#include "harness/exec/machine_speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "harness/base/error.h"
#include "harness/exec/pinning.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

// The seconds of every run of one piece of work.
class Runs {
 public:
  void add(double seconds_in_all, const std::function<void()>& work) {
    work();  // only fills the caches
    const Clock::time_point begin = Clock::now();
    Clock::time_point start = begin, end = begin;
    while (seconds_between(begin, end) < seconds_in_all) {
      start = Clock::now();
      work();
      end = Clock::now();
      seconds_.push_back(seconds_between(start, end));
    }
  }
  double tenth_percentile() {
    std::ranges::sort(seconds_);
    return seconds_[seconds_.size() / 10];
  }

 private:
  static double seconds_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  std::vector<double> seconds_;
};

// c = a b, of side x side matrices.
void multiply(std::size_t side, const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  std::ranges::fill(c, 0.0F);
  for (std::size_t i = 0; i < side; ++i)
    for (std::size_t k = 0; k < side; ++k)
      for (std::size_t j = 0; j < side; ++j) c[i * side + j] += a[i * side + k] * b[k * side + j];
}

// Two cores for two threads; nothing where there are no two, or the build cannot choose: then the threads give the one
// core that they may share away while they wait.
std::unique_ptr<Pinning> two_cores() {
  try {
    return pin_to_cores(2, nullptr);
  } catch (const InputError&) {
    return nullptr;
  }
}

// Waits until `turn` is not `own`.
int wait_for_turn(const std::atomic<int>& turn, int own, bool yields) {
  for (;;) {
    if (const int now = turn.load(std::memory_order_acquire); now != own) return now;
    if (yields) std::this_thread::yield();
  }
}

void add_round_trips(Runs& into, double seconds_in_all, int trips, const Pinning* cores) {
  constexpr int kAsker = 0, kAnswerer = 1, kEnd = 2;
  std::atomic<int> turn{kAsker};
  std::jthread answerer([&] {
    if (cores) cores->bind(Rank(1));
    while (wait_for_turn(turn, kAsker, !cores) != kEnd) turn.store(kAsker, std::memory_order_release);
  });
  std::jthread asker([&] {  // not this thread, which would stay on the core
    if (cores) cores->bind(Rank(0));
    into.add(seconds_in_all, [&] {
      for (int i = 0; i < trips; ++i) {
        turn.store(kAnswerer, std::memory_order_release);
        wait_for_turn(turn, kAnswerer, !cores);
      }
    });
    turn.store(kEnd, std::memory_order_release);
  });
}

}  // namespace

MachineSpeeds measure_machine_speeds() {
  constexpr int kRounds = 10, kTrips = 20;
  constexpr std::size_t kSide = 96, kBytes = std::size_t{4} << 20;
  const std::vector<float> a(kSide * kSide, 0.5F), b(kSide * kSide, 0.25F);
  std::vector<float> c(kSide * kSide);
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  volatile float kept = 0;  // so that the work is done
  const std::unique_ptr<Pinning> cores = two_cores();
  Runs products, copies, round_trips;
  for (int round = 0; round < kRounds; ++round) {
    products.add(0.01, [&] {
      multiply(kSide, a, b, c);
      kept = c.back();
    });
    copies.add(0.02, [&] {
      std::memcpy(to.data(), from.data(), kBytes);
      kept = static_cast<float>(to.back());
    });
    add_round_trips(round_trips, 0.03, kTrips, cores.get());
  }
  return {.arithmetic = static_cast<double>(kSide * kSide * kSide) / products.tenth_percentile(),
          .memory = static_cast<double>(kBytes) / copies.tenth_percentile(),
          .message = kTrips / round_trips.tenth_percentile()};
}

std::string changed_speeds(const MachineSpeeds& then, const MachineSpeeds& now) {
  constexpr double kTolerance = 0.05;
  std::string text;
  const auto compare = [&](const char* what, double before, double after) {
    const double change = after / before - 1;
    if (std::abs(change) <= kTolerance) return;
    text += fmt::format("{}{} {:.0f} % {}", text.empty() ? "" : ", ", what, 100 * std::abs(change),
                        change < 0 ? "slower" : "faster");
  };
  compare("arithmetic is", then.arithmetic, now.arithmetic);
  compare("memory is", then.memory, now.memory);
  compare("messages are", then.message, now.message);
  return text;
}

}  // namespace sluice
