#include "harness/exec/machine_speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

// The seconds of every run of one piece of work.
class Runs {
 public:
  // The first run, which only fills the caches, does not count.
  void add(int runs, const std::function<void()>& work) {
    work();
    for (int i = 0; i < runs; ++i) {
      const Clock::time_point start = Clock::now();
      work();
      seconds_.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  double tenth_percentile() {
    std::ranges::sort(seconds_);
    return seconds_[seconds_.size() / 10];
  }

 private:
  std::vector<double> seconds_;
};

// c = a b, of side x side matrices.
void multiply(std::size_t side, const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  std::ranges::fill(c, 0.0F);
  for (std::size_t i = 0; i < side; ++i)
    for (std::size_t k = 0; k < side; ++k)
      for (std::size_t j = 0; j < side; ++j) c[i * side + j] += a[i * side + k] * b[k * side + j];
}

// Waits until `turn` is not `own`, as a rank waits for a message: reads it, then gives the core away.
int wait_for_turn(const std::atomic<int>& turn, int own) {
  constexpr int kReads = 1000;
  for (int reads = 0;; ++reads) {
    if (const int now = turn.load(std::memory_order_acquire); now != own) return now;
    if (reads > kReads) std::this_thread::yield();
  }
}

void add_round_trips(Runs& into, int runs, int trips) {
  constexpr int kAsker = 0, kAnswerer = 1, kEnd = 2;
  std::atomic<int> turn{kAsker};
  const std::jthread answerer([&] {
    while (wait_for_turn(turn, kAsker) != kEnd) turn.store(kAsker, std::memory_order_release);
  });
  into.add(runs, [&] {
    for (int i = 0; i < trips; ++i) {
      turn.store(kAnswerer, std::memory_order_release);
      wait_for_turn(turn, kAnswerer);
    }
  });
  turn.store(kEnd, std::memory_order_release);
}

}  // namespace

MachineSpeeds measure_machine_speeds() {
  constexpr int kRounds = 10, kTrips = 200;
  constexpr std::size_t kSide = 96, kBytes = std::size_t{8} << 20;
  const std::vector<float> a(kSide * kSide, 0.5F), b(kSide * kSide, 0.25F);
  std::vector<float> c(kSide * kSide);
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  volatile float kept = 0;  // so that the work is done
  Runs products, copies, round_trips;
  for (int round = 0; round < kRounds; ++round) {
    products.add(20, [&] {
      multiply(kSide, a, b, c);
      kept = c.back();
    });
    copies.add(80, [&] {
      std::memcpy(to.data(), from.data(), kBytes);
      kept = static_cast<float>(to.back());
    });
    add_round_trips(round_trips, 20, kTrips);
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

Json to_json(const MachineSpeeds& speeds) {
  return {{"arithmetic", speeds.arithmetic}, {"memory", speeds.memory}, {"message", speeds.message}};
}

MachineSpeeds machine_speeds_from_json(JsonReader& reader) {
  constexpr double kMost = 1e15;
  const MachineSpeeds speeds{.arithmetic = reader.above_zero("arithmetic", kMost),
                             .memory = reader.above_zero("memory", kMost),
                             .message = reader.above_zero("message", kMost)};
  reader.no_other_keys();
  return speeds;
}

}  // namespace sluice
