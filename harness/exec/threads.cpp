#include "harness/exec/threads.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace sluice {

namespace {

// Cores that this process may run on: a pinned process, or one in a container, has fewer than the machine.
std::size_t count_usable_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return static_cast<std::size_t>(CPU_COUNT(&cores));
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

// Lets a thread sleep until a condition holds that another thread makes true. Waiting spins first: in a balanced
// pipeline the message is microseconds away, and a futex would cost more than that. With more ranks than cores,
// spinning only takes processor time from the rank that is waited for.
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

// The replicas of one stage. In an all-reduce and in a large reduce-scatter every member reads the others' memory
// between two barriers. In the other collectives, which sharded stages need for every micro-batch, no member waits for
// one that only reads:
//   - a gather reads the shards where they lie. They change once per update, so only the first gather of every version
//     waits;
//   - a small reduce-scatter is copied to a place of its own, and summed some posts later.
class Group {
 public:
  Group(std::size_t members, int spins) : data_(members), members_(members), signal_(spins) {}

  // Every member sums one slice over all members, in their order, and writes the sum back to all:
  // the result is the same bits on every rank, whoever comes first.
  template <class T>
  void all_reduce(std::size_t member, T* data, std::size_t count, const std::atomic<bool>& aborted) {
    data_[member] = data;
    barrier(aborted);
    const std::size_t n = data_.size();
    sum_blocks<T>(count * member / n, count * (member + 1) / n, data_of<T>(),
                  [&](const T* sum, std::size_t begin, std::size_t size) {
                    for (std::size_t k = 0; k < n; ++k) std::copy(sum, sum + size, static_cast<T*>(data_[k]) + begin);
                  });
    barrier(aborted);
  }

  // Only a member itself reads or writes its slice of its own data, so none waits for another.
  template <class T>
  void reduce_scatter(std::size_t member, T* data, std::size_t count, const std::atomic<bool>& aborted) {
    data_[member] = data;
    barrier(aborted);
    sum_blocks<T>(count * member, count * (member + 1), data_of<T>(),
                  [&](const T* sum, std::size_t begin, std::size_t size) { std::copy(sum, sum + size, data + begin); });
    barrier(aborted);
  }

  // Every member copies what the others have for it.
  template <class T>
  void all_to_all(std::size_t member, const T* send, std::span<const std::size_t> send_counts, T* receive,
                  const std::atomic<bool>& aborted) {
    members_[member].sent = send;
    members_[member].sent_counts = send_counts;
    barrier(aborted);
    for (const Member& from : members_) {
      const auto own = from.sent_counts.begin() + static_cast<std::ptrdiff_t>(member);
      const T* const first = static_cast<const T*>(from.sent) + std::accumulate(from.sent_counts.begin(), own, 0ul);
      receive = std::copy_n(first, *own, receive);
    }
    barrier(aborted);
  }

  // A member publishes a version of its shard when the others have read the one before: they have begun a
  // reduce-scatter since, for which the member waited before its step.
  template <class T>
  void all_gather(std::size_t member, const Shard& own, T* data, std::size_t count, const std::atomic<bool>& aborted) {
    Member& me = members_[member];
    if (me.versions == 0 || me.version != own.version) {
      me.shard = own.data;
      me.version = own.version;
      ++me.versions;
      if (published_.fetch_add(1) + 1 == me.versions * members_.size()) signal_.notify();
    }
    signal_.wait(aborted, [&] { return published_.load() >= me.versions * members_.size(); });
    for (std::size_t k = 0; k < members_.size(); ++k) {
      if (k == member) continue;
      const T* const slice = static_cast<const T*>(members_[k].shard);
      std::copy(slice, slice + count, data + k * count);
    }
  }

  // A place may be written again when the others have summed what was there kPlaces posts before. They had, before they
  // posted the one that came kPlaces / 2 later, whose sum the caller has taken.
  template <class T>
  bool post(std::size_t member, const T* data, std::size_t count) {
    const std::size_t elements = count * members_.size();
    if (elements * sizeof(T) > kMaxPosted) return false;
    Member& me = members_[member];
    if (me.posted - me.taken > Transport::kPosted) throw std::logic_error("too many reduce-scatters are posted");
    if (me.posted == 0) {
      me.places.resize(kPlaces * elements * sizeof(T));
      me.count = count;
      me.type = sizeof(T) == 4 ? ElementType::float32 : ElementType::float64;
    }
    if (count != me.count) throw std::logic_error("a group's reduce-scatters differ in size");
    std::copy(data, data + elements, place<T>(member, me.posted, count));
    std::atomic<std::uint64_t>& posts = posts_[me.posted % kPlaces];
    if (posts.fetch_add(1) + 1 == posts_of(me.posted)) signal_.notify();
    ++me.posted;
    return true;
  }
  const void* take(std::size_t member, std::uint64_t left, const std::atomic<bool>& aborted) {
    Member& me = members_[member];
    if (me.posted - me.taken <= left) return nullptr;
    const std::atomic<std::uint64_t>& posts = posts_[me.taken % kPlaces];
    signal_.wait(aborted, [&] { return posts.load() >= posts_of(me.taken); });
    const std::uint64_t post = me.taken++;
    if (me.type == ElementType::float32) return sum_post<float>(member, post, me.count);
    return sum_post<double>(member, post, me.count);
  }
  void wake() { signal_.notify_always(); }

 private:
  static constexpr std::uint64_t kPlaces = 2 * std::uint64_t{Transport::kPosted + 1};
  // Above it, copying costs more than waiting for the others' reads, and takes memory that no prediction counts.
  static constexpr std::size_t kMaxPosted = 32 << 10;  // bytes of all slices

  // The state of one member; the others read shard and places only.
  struct alignas(64) Member {
    const void* shard = nullptr;  // the version published last
    std::int64_t version = 0;
    std::uint64_t versions = 0;           // published so far
    std::uint64_t posted = 0, taken = 0;  // reduce-scatters
    std::size_t count = 0;
    ElementType type = ElementType::float32;
    std::vector<std::byte> places;  // kPlaces of all slices
    const void* sent = nullptr;     // in an all-to-all, for all members
    std::span<const std::size_t> sent_counts;
  };
  template <class T>
  T* place(std::size_t member, std::uint64_t post, std::size_t count) {
    return reinterpret_cast<T*>(members_[member].places.data()) + post % kPlaces * count * members_.size();
  }
  // The count of a place's posts when all members have posted number `post`.
  std::uint64_t posts_of(std::uint64_t post) const { return (post / kPlaces + 1) * members_.size(); }
  // Sums the own slice of a post over all members; the result replaces the own slice in the member's place.
  template <class T>
  const T* sum_post(std::size_t member, std::uint64_t post, std::size_t count) {
    T* const own = place<T>(member, post, count) + member * count;
    const auto from = [&](std::size_t k) { return place<T>(k, post, count) + member * count; };
    sum_blocks<T>(0, count, from,
                  [&](const T* sum, std::size_t begin, std::size_t size) { std::copy(sum, sum + size, own + begin); });
    return own;
  }
  // The members' sum of elements [first, last) of from(member), block by block to `take(sum, begin, size)`.
  template <class T, class From, class Take>
  void sum_blocks(std::size_t first, std::size_t last, From from, Take take) {
    constexpr std::size_t kBlock = 1024;  // stays in the first-level cache while all members are added
    for (std::size_t begin = first; begin < last; begin += kBlock) {
      const std::size_t end = std::min(last, begin + kBlock);
      T sum[kBlock];
      std::copy(from(0) + begin, from(0) + end, sum);
      for (std::size_t k = 1; k < data_.size(); ++k) {
        const T* const other = from(k);
        for (std::size_t i = begin; i < end; ++i) sum[i - begin] += other[i];
      }
      take(sum, begin, end - begin);
    }
  }
  template <class T>
  auto data_of() {
    return [this](std::size_t k) { return static_cast<T*>(data_[k]); };
  }
  // Barrier of all members.
  void barrier(const std::atomic<bool>& aborted) {
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
  std::vector<Member> members_;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::uint64_t> round_{0};
  std::atomic<std::uint64_t> published_{0};  // versions, summed over the members
  std::array<std::atomic<std::uint64_t>, kPlaces> posts_{};
  Signal signal_;
};

class ThreadTransport : public Transport {
 public:
  explicit ThreadTransport(const Program& program) {
    const bool crowded = program.rank_count() > count_usable_cores();
    const int spins = crowded ? 50 : 4000;
    for (const Channel& channel : program.channels) {
      // Room for all messages of a run: the checker proves that a program cannot deadlock on the assumption that sends
      // never wait, however far a schedule lets the sender get ahead of the receiver.
      const auto messages = static_cast<std::size_t>(channel.messages);
      rings_.push_back(std::make_unique<Ring>(std::max<std::size_t>(messages, 2), spins));
    }
    for (const auto& ranks : collective_groups(program))
      groups_.push_back(std::make_unique<Group>(ranks.size(), spins));
  }

  void send(int channel, Message message) override { rings_[channel]->push(std::move(message), aborted_); }
  Message receive(int channel) override { return rings_[channel]->pop(aborted_); }
  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    on_group(group, data, type,
             [&](Group& g, auto* values) { g.all_reduce(static_cast<std::size_t>(member), values, count, aborted_); });
  }
  void all_gather(int group, int member, const Shard& own, void* data, std::size_t count, ElementType type) override {
    on_group(group, data, type, [&](Group& g, auto* values) {
      g.all_gather(static_cast<std::size_t>(member), own, values, count, aborted_);
    });
  }
  void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) override {
    on_group(group, data, type, [&](Group& g, auto* values) {
      g.reduce_scatter(static_cast<std::size_t>(member), values, count, aborted_);
    });
  }
  void all_to_all(int group, int member, const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> /*receive_counts*/, ElementType type) override {
    on_group(group, receive, type, [&](Group& g, auto* values) {
      using T = std::remove_pointer_t<decltype(values)>;
      g.all_to_all(static_cast<std::size_t>(member), static_cast<const T*>(send), send_counts, values, aborted_);
    });
  }
  bool post_reduce_scatter(int group, int member, const void* data, std::size_t count, ElementType type) override {
    bool posted = false;
    on_group(group, data, type,
             [&](Group& g, const auto* values) { posted = g.post(static_cast<std::size_t>(member), values, count); });
    return posted;
  }
  const void* take_reduced(int group, int member, int left) override {
    return groups_[group]->take(static_cast<std::size_t>(member), static_cast<std::uint64_t>(left), aborted_);
  }
  void abort() override {
    aborted_.store(true);
    for (const auto& ring : rings_) ring->wake();
    for (const auto& group : groups_) group->wake();
  }

 private:
  // `work` with the data as float* or double*, const where they are.
  template <class Data, class Work>
  void on_group(int group, Data* data, ElementType type, Work work) {
    constexpr bool is_const = std::is_const_v<Data>;
    Group& g = *groups_[group];
    if (type == ElementType::float32) {
      work(g, static_cast<std::conditional_t<is_const, const float, float>*>(data));
    } else {
      work(g, static_cast<std::conditional_t<is_const, const double, double>*>(data));
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
