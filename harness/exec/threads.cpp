#include "harness/exec/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace sluice {

namespace {

// Those this process may run on: a pinned one, or one in a container, has fewer than the machine.
std::size_t usable_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    return static_cast<std::size_t>(CPU_COUNT(&cores));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Lets a thread sleep until a condition that another thread makes true. Waiting spins first: in a
// balanced pipeline the message is microseconds away and a futex would cost more than that. With
// more ranks than cores spinning only steals the time of the rank one waits for.
class Signal {
 public:
  explicit Signal(int spins) : spins_(spins) {}

  template <class Condition>
  void wait(const std::atomic<bool>& aborted, Condition condition) {
    for (int i = 0; i < spins_; ++i) {
      if (condition()) return;
      if (aborted.load(std::memory_order_relaxed)) throw TransportAborted();
      relax();
    }
    sleepers_.fetch_add(1);
    for (;;) {
      const int seen = count_.load();
      if (condition()) break;
      if (aborted.load()) {
        sleepers_.fetch_sub(1);
        throw TransportAborted();
      }
      count_.wait(seen);
    }
    sleepers_.fetch_sub(1);
  }
  // After the condition was made true with a sequentially consistent store.
  void notify() {
    if (sleepers_.load() > 0) notify_always();
  }
  void notify_always() {
    count_.fetch_add(1);
    count_.notify_all();
  }

 private:
  int spins_;
  std::atomic<int> count_{0};
  std::atomic<int> sleepers_{0};
};

class Ring {
 public:
  Ring(std::size_t capacity, int spins) : slots_(capacity), signal_(spins) {}

  void push(Message message, const std::atomic<bool>& aborted) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    signal_.wait(aborted, [&] { return tail - head_.load() < slots_.size(); });
    slots_[tail % slots_.size()] = std::move(message);
    tail_.store(tail + 1);
    signal_.notify();
  }
  Message pop(const std::atomic<bool>& aborted) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    signal_.wait(aborted, [&] { return tail_.load() != head; });
    Message message = std::move(slots_[head % slots_.size()]);
    head_.store(head + 1);
    signal_.notify();
    return message;
  }
  void wake() { signal_.notify_always(); }

 private:
  std::vector<Message> slots_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) Signal signal_;
};

// The replicas of one stage. Every member reads the others' memory between two meetings of all.
class Group {
 public:
  Group(std::size_t members, int spins) : data_(members), signal_(spins) {}

  // Every member sums one slice over all members, in their order, and writes the sum back to all:
  // the result is the same bits on every rank, whoever comes first.
  template <class T>
  void all_reduce(std::size_t member, T* data, std::size_t count,
                  const std::atomic<bool>& aborted) {
    data_[member] = data;
    meet(aborted);
    const std::size_t n = data_.size();
    sum_blocks<T>(count * member / n, count * (member + 1) / n,
                  [&](const T* sum, std::size_t begin, std::size_t size) {
                    for (std::size_t k = 0; k < n; ++k)
                      std::copy(sum, sum + size, static_cast<T*>(data_[k]) + begin);
                  });
    meet(aborted);
  }

  // Only a member itself reads or writes its slice of its own data, so none waits for another.
  template <class T>
  void reduce_scatter(std::size_t member, T* data, std::size_t count,
                      const std::atomic<bool>& aborted) {
    data_[member] = data;
    meet(aborted);
    sum_blocks<T>(count * member, count * (member + 1),
                  [&](const T* sum, std::size_t begin, std::size_t size) {
                    std::copy(sum, sum + size, data + begin);
                  });
    meet(aborted);
  }

  // Every member's own slice is only read, the others of its data are written by it alone.
  template <class T>
  void all_gather(std::size_t member, T* data, std::size_t count,
                  const std::atomic<bool>& aborted) {
    data_[member] = data;
    meet(aborted);
    for (std::size_t k = 0; k < data_.size(); ++k) {
      if (k == member) continue;
      const T* const slice = static_cast<const T*>(data_[k]) + k * count;
      std::copy(slice, slice + count, data + k * count);
    }
    meet(aborted);
  }
  void wake() { signal_.notify_always(); }

 private:
  // The members' sum of elements [first, last), block by block to `take(sum, begin, size)`.
  template <class T, class Take>
  void sum_blocks(std::size_t first, std::size_t last, Take take) {
    constexpr std::size_t kBlock =
        1024;  // stays in the first-level cache while all members are added
    for (std::size_t begin = first; begin < last; begin += kBlock) {
      const std::size_t end = std::min(last, begin + kBlock);
      T sum[kBlock];
      std::copy(static_cast<T*>(data_[0]) + begin, static_cast<T*>(data_[0]) + end, sum);
      for (std::size_t k = 1; k < data_.size(); ++k)
        for (std::size_t i = begin; i < end; ++i) sum[i - begin] += static_cast<T*>(data_[k])[i];
      take(sum, begin, end - begin);
    }
  }
  // All members wait here for one another.
  void meet(const std::atomic<bool>& aborted) {
    const std::uint64_t round = round_.load();
    if (arrived_.fetch_add(1) + 1 == data_.size()) {
      arrived_.store(0);
      round_.store(round + 1);
      signal_.notify_always();
    } else {
      signal_.wait(aborted, [&] { return round_.load() != round; });
    }
  }

  std::vector<void*> data_;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::uint64_t> round_{0};
  Signal signal_;
};

class ThreadTransport : public Transport {
 public:
  explicit ThreadTransport(const Program& program) {
    const bool crowded = program.rank_count() > usable_cores();
    const int spins = crowded ? 50 : 4000;
    for (const Channel& channel : program.channels) {
      // Room for a whole run's messages: the checker's proof that a program cannot deadlock takes
      // sends that never wait, however far a schedule lets the sender run ahead.
      const auto messages = static_cast<std::size_t>(channel.messages);
      rings_.push_back(std::make_unique<Ring>(std::max<std::size_t>(messages, 2), spins));
    }
    for (const auto& ranks : program.placement.stages)
      groups_.push_back(std::make_unique<Group>(ranks.size(), spins));
  }

  void send(int channel, Message message) override {
    rings_[static_cast<std::size_t>(channel)]->push(std::move(message), aborted_);
  }
  Message receive(int channel) override {
    return rings_[static_cast<std::size_t>(channel)]->pop(aborted_);
  }
  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    on_group(group, data, type, [&](Group& g, auto* values) {
      g.all_reduce(static_cast<std::size_t>(member), values, count, aborted_);
    });
  }
  void all_gather(int group, int member, void* data, std::size_t count, ElementType type) override {
    on_group(group, data, type, [&](Group& g, auto* values) {
      g.all_gather(static_cast<std::size_t>(member), values, count, aborted_);
    });
  }
  void reduce_scatter(int group, int member, void* data, std::size_t count,
                      ElementType type) override {
    on_group(group, data, type, [&](Group& g, auto* values) {
      g.reduce_scatter(static_cast<std::size_t>(member), values, count, aborted_);
    });
  }
  void abort() override {
    aborted_.store(true);
    for (const auto& ring : rings_) ring->wake();
    for (const auto& group : groups_) group->wake();
  }

 private:
  template <class Work>
  void on_group(int group, void* data, ElementType type, Work work) {
    Group& g = *groups_[static_cast<std::size_t>(group)];
    if (type == ElementType::float32) {
      work(g, static_cast<float*>(data));
    } else {
      work(g, static_cast<double*>(data));
    }
  }

  std::atomic<bool> aborted_{false};
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace

std::unique_ptr<Transport> make_thread_transport(const Program& program) {
  return std::make_unique<ThreadTransport>(program);
}

}  // namespace sluice
