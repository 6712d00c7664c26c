// A program's messages over MPI, without a blocking MPI call. A message is the number of its header (the tag) and its
// blocks of memory, sent from where they lie; a header is sent before its first use. Arriving messages are found by a
// matched probe, so no receive is posted that might have to be cancelled: a run that stops half-way leaves only
// messages that were sent and not received, which both sides count and receive at the end (close()).
#include <sluice_build.h>

#ifdef SLUICE_HAVE_MPI

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <span>

#include "harness/exec/mpi/mpi_parts.h"

namespace sluice {

namespace {

using Block = std::span<std::byte>;

// Blocks, cut into parts that MPI can count.
std::vector<Block> in_parts(const std::vector<Block>& blocks) {
  std::vector<Block> result;
  for (Block block : blocks) {
    for (; block.size() > kLargestPart; block = block.subspan(kLargestPart))
      result.push_back(block.first(kLargestPart));
    result.push_back(block);
  }
  return result;
}

// A message's note follows its header: the numbers, and how many they are.
void append_note(std::vector<std::byte>& header, const Message& message) {
  const std::size_t count = message.note ? message.note->size() : 0, before = header.size();
  header.resize(before + count * sizeof(double) + sizeof count);
  if (count > 0) std::memcpy(header.data() + before, message.note->data(), count * sizeof(double));
  std::memcpy(header.data() + before + count * sizeof(double), &count, sizeof count);
}
// The header without the note, which goes to `note`.
std::span<const std::byte> split_note(std::span<const std::byte> header,
                                      std::shared_ptr<const std::vector<double>>& note) {
  std::size_t count = 0;
  std::memcpy(&count, header.data() + header.size() - sizeof count, sizeof count);
  header = header.first(header.size() - sizeof count);
  if (count == 0) return header;
  std::vector<double> numbers(count);
  std::memcpy(numbers.data(), header.data() + header.size() - count * sizeof(double), count * sizeof(double));
  note = std::make_shared<const std::vector<double>>(std::move(numbers));
  return header.first(header.size() - count * sizeof(double));
}

constexpr int kHeaderTag = 0;           // + 1 + n: contents of a message with header n
constexpr std::size_t kHeaders = 8192;  // numbers; then they are given out again from 0
constexpr int kStopTag = 0;             // + 1 + g: the collectives of group g

class MpiTransport : public Transport {
 public:
  MpiTransport(const MpiProcess& process, const Program& program, MessageCodec& codec)
      : process_(process), program_(program), groups_(collective_groups(program)), codec_(codec) {
    const auto n = static_cast<std::size_t>(process.size);
    sources_.resize(n);
    destinations_.resize(n);
    counts_.resize(n);
    if (process.spare_cores) helper_ = std::thread([this] { help(); });
  }

  ~MpiTransport() override { close(); }

  void send(int channel, Message message) override {
    const int to = program_.channels[channel].to.value;
    MessageCodec::Encoded encoded = codec_.encode(message);
    append_note(encoded.header, message);
    const std::lock_guard lock(mpi_);
    Destination& destination = destinations_[to];
    auto known = destination.numbers.find(encoded.header);
    if (known == destination.numbers.end()) {
      if (destination.numbers.size() == kHeaders) destination.numbers.clear();
      const int number = static_cast<int>(destination.numbers.size());
      known = destination.numbers.emplace(encoded.header, number).first;
      Outgoing& out = outgoing_.emplace_back();
      // The number is sent with the header, since numbers are given out again.
      out.header.resize(sizeof number);
      std::memcpy(out.header.data(), &number, sizeof number);
      out.header.insert(out.header.end(), encoded.header.begin(), encoded.header.end());
      start_send(out, process_.messages, to, kHeaderTag, out.header);
    }
    Outgoing& out = outgoing_.emplace_back();
    out.message = std::move(message);
    const int tag = kHeaderTag + 1 + known->second;
    std::vector<Block> blocks = in_parts(encoded.parts);
    if (blocks.empty())
      blocks.emplace_back();  // nothing but the header; an empty block marks the message's place in the order
    for (const Block block : blocks) start_send(out, process_.messages, to, tag, block);
    finish_sends();
  }

  Message receive(int channel) override {
    const int from = program_.channels[channel].from.value;
    Source& source = sources_[from];
    Message message;
    wait_until([&] {
      if (source.ready.empty()) look(source, from);
      if (source.ready.empty()) return false;
      message = std::move(source.ready.front());
      source.ready.pop_front();
      return true;
    });
    return message;
  }

  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    if (type == ElementType::float32) {
      all_reduce(group, member, static_cast<float*>(data), count);
    } else {
      all_reduce(group, member, static_cast<double*>(data), count);
    }
  }

  void all_gather(int group, int member, const Shard& /*own*/, void* data, std::size_t count,
                  ElementType type) override {
    const std::size_t bytes = count * (type == ElementType::float32 ? 4 : 8);
    const auto all = static_cast<std::byte*>(data);
    const auto slice = [&](std::size_t k) { return Block(all + k * bytes, bytes); };
    exchange(
        group, member, [&](std::size_t) { return slice(static_cast<std::size_t>(member)); }, slice);
  }

  void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) override {
    if (type == ElementType::float32) {
      reduce_scatter(group, member, static_cast<float*>(data), count);
    } else {
      reduce_scatter(group, member, static_cast<double*>(data), count);
    }
  }

  void all_to_all(int group, int member, const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, ElementType type) override {
    const std::size_t element = type == ElementType::float32 ? 4 : 8;
    const auto part = [element](void* data, std::span<const std::size_t> counts, std::size_t k) {
      const std::size_t first = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(k), 0ul);
      return Block(static_cast<std::byte*>(data) + first * element, counts[k] * element);
    };
    const auto give = [&](std::size_t k) { return part(const_cast<void*>(send), send_counts, k); };
    const auto room = [&](std::size_t k) { return part(receive, receive_counts, k); };
    std::ranges::copy(give(static_cast<std::size_t>(member)), room(static_cast<std::size_t>(member)).begin());
    exchange(group, member, give, room);
  }

  void abort() override {
    aborted_.store(true);
    const std::lock_guard lock(mpi_);
    if (announced_) return;
    announced_ = true;
    for (int peer = 0; peer < process_.size; ++peer)
      if (peer != process_.rank) start_send(outgoing_.emplace_back(), process_.exchanges, peer, kStopTag, {});
  }

  bool stopped() override {
    if (aborted_.load()) return true;
    if (const std::unique_lock lock(mpi_, std::try_to_lock); lock.owns_lock()) hear_stop();
    return aborted_.load();
  }

 private:
  struct Outgoing {
    Message message;                // what the requests send from
    std::vector<std::byte> header;  // likewise
    std::vector<MPI_Request> requests;
  };
  struct Destination {
    std::map<std::vector<std::byte>, int> numbers;  // headers it knows
  };
  // What comes from one process: a message at a time, in order.
  struct Source {
    std::vector<std::vector<std::byte>> headers;
    Message message;            // being received
    std::vector<Block> blocks;  // of it
    std::size_t next = 0;       // the block that `request` or a probe is for
    MPI_Request request = MPI_REQUEST_NULL;
    std::deque<Message> ready;
  };
  // MPI messages to and from one process so far, of this run.
  struct Counts {
    std::int64_t sent_messages = 0, sent_exchanges = 0;
    std::int64_t got_messages = 0, got_exchanges = 0;
  };

  Counts& count(int peer) { return counts_[peer]; }

  void start_send(Outgoing& out, MPI_Comm comm, int to, int tag, Block block) {
    out.requests.emplace_back();
    MPI_Isend(block.data(), static_cast<int>(block.size()), MPI_BYTE, to, tag, comm, &out.requests.back());
    ++(comm == process_.messages ? count(to).sent_messages : count(to).sent_exchanges);
  }

  // Drops messages whose sends are complete. With the lock held, as everything below that calls MPI.
  void finish_sends() {
    std::erase_if(outgoing_, [](Outgoing& out) {
      int done = 0;
      MPI_Testall(static_cast<int>(out.requests.size()), out.requests.data(), &done, MPI_STATUSES_IGNORE);
      return done != 0;
    });
  }

  void hear_stop() {
    int found = 0;
    MPI_Message handle;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, kStopTag, process_.exchanges, &found, &handle, &status);
    if (!found) return;
    MPI_Mrecv(nullptr, 0, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    ++count(status.MPI_SOURCE).got_exchanges;
    aborted_.store(true);
  }

  // Receives what has arrived from that process, up to one whole message.
  void look(Source& source, int from) {
    for (;;) {
      if (source.request != MPI_REQUEST_NULL) {
        int done = 0;
        MPI_Test(&source.request, &done, MPI_STATUS_IGNORE);
        if (!done) return;
        if (++source.next == source.blocks.size()) {
          source.ready.push_back(std::move(source.message));
          source.blocks.clear();
          source.next = 0;
          return;
        }
      }
      int found = 0;
      MPI_Message handle;
      MPI_Status status;
      MPI_Improbe(from, MPI_ANY_TAG, process_.messages, &found, &handle, &status);
      if (!found) return;
      ++count(from).got_messages;
      if (status.MPI_TAG == kHeaderTag) {
        learn_header(source, handle, status);
        continue;
      }
      if (source.blocks.empty()) {
        finish_sends();  // the memory of sent messages is used again for this one, still warm in the cache
        const auto number = static_cast<std::size_t>(status.MPI_TAG - kHeaderTag - 1);
        std::vector<Block> parts;
        std::shared_ptr<const std::vector<double>> note;
        source.message = codec_.make_room(split_note(source.headers.at(number), note), parts);
        source.message.note = std::move(note);
        source.blocks = in_parts(parts);
        if (source.blocks.empty()) source.blocks.emplace_back();
      }
      const Block block = source.blocks[source.next];
      MPI_Imrecv(block.data(), static_cast<int>(block.size()), MPI_BYTE, &handle, &source.request);
    }
  }

  void learn_header(Source& source, MPI_Message handle, const MPI_Status& status) {
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    MPI_Mrecv(bytes.data(), size, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    int number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    if (source.headers.size() <= static_cast<std::size_t>(number))
      source.headers.resize(static_cast<std::size_t>(number) + 1);
    source.headers[number].assign(bytes.begin() + sizeof number, bytes.end());
  }

  // Calls `done` with the lock held until it is true; in between, sends are finished and stops are noticed.
  template <class Done>
  void wait_until(Done done) {
    Backoff backoff(process_.crowded);
    const Waiting waiting(*this);
    for (;;) {
      {
        const std::lock_guard lock(mpi_);
        if (aborted_.load(std::memory_order_relaxed)) throw TransportAborted();
        if (done()) return;
        if (backoff.turn() % 16 == 15) {
          finish_sends();
          hear_stop();
        }
      }
      backoff.pause();
    }
  }

  // While one exists, a thread of the rank waits in MPI (its own, or the one that reduces gradients), and the helper
  // thread leaves MPI alone.
  struct Waiting {
    explicit Waiting(MpiTransport& t) : transport(t) { transport.waiting_.fetch_add(1); }
    ~Waiting() { transport.waiting_.fetch_sub(1); }
    MpiTransport& transport;
  };

  // The helper thread. MPI moves large messages only inside its calls: if nobody made any, they would wait until both
  // ranks have finished computing.
  void help() {
    std::unique_lock lock(helping_);
    while (!changed_.wait_for(lock, std::chrono::microseconds(100), [&] { return closing_; })) {
      if (waiting_.load() > 0) continue;
      const std::unique_lock mpi(mpi_, std::try_to_lock);
      if (!mpi.owns_lock() || aborted_.load()) continue;
      finish_sends();
      for (int from = 0; from < process_.size; ++from)
        if (from != process_.rank) look(sources_[from], from);
    }
  }

  const std::vector<Rank>& members(int group) const { return groups_[group]; }

  struct Expected {
    int from;
    std::vector<Block> blocks;
    std::size_t next = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Sends give(k) to member k and receives into room(k) from it, for all members but the caller.
  template <class Give, class Room>
  void exchange(int group, int member, Give give, Room room) {
    const std::vector<Rank>& ranks = members(group);
    const int tag = kStopTag + 1 + group;
    {
      const std::lock_guard lock(mpi_);
      for (std::size_t k = 0; k < ranks.size(); ++k) {
        if (static_cast<int>(k) == member) continue;
        Outgoing& out = exchanged_.emplace_back();
        for (const Block block : in_parts({give(k)})) start_send(out, process_.exchanges, ranks[k].value, tag, block);
        expected_.push_back({ranks[k].value, in_parts({room(k)})});
      }
    }
    wait_until([&] {
      std::erase_if(expected_, [&](Expected& e) { return arrived(e, tag); });
      std::erase_if(exchanged_, [](Outgoing& out) {
        int done = 0;
        MPI_Testall(static_cast<int>(out.requests.size()), out.requests.data(), &done, MPI_STATUSES_IGNORE);
        return done != 0;
      });
      return expected_.empty() && exchanged_.empty();
    });
  }

  bool arrived(Expected& e, int tag) {
    for (;;) {
      if (e.request != MPI_REQUEST_NULL) {
        int done = 0;
        MPI_Test(&e.request, &done, MPI_STATUS_IGNORE);
        if (!done) return false;
        if (++e.next == e.blocks.size()) return true;
      }
      int found = 0;
      MPI_Message handle;
      MPI_Improbe(e.from, tag, process_.exchanges, &found, &handle, MPI_STATUS_IGNORE);
      if (!found) return false;
      ++count(e.from).got_exchanges;
      const Block block = e.blocks[e.next];
      MPI_Imrecv(block.data(), static_cast<int>(block.size()), MPI_BYTE, &handle, &e.request);
    }
  }

  template <class T>
  T* scratch(std::size_t count) {
    scratch_.resize(std::max(scratch_.size(), count * sizeof(T)));
    return reinterpret_cast<T*>(scratch_.data());
  }

  // slice(k): the slice of the own data that member k sums. The own slice becomes the sum over the members, added in
  // their order: the same additions in the same order as between threads, so the same bits.
  template <class T, class Slice>
  void sum_own_slice(int group, int member, Slice slice) {
    const std::size_t n = members(group).size(), me = static_cast<std::size_t>(member);
    const std::span<T> own = slice(me);
    T* const others = scratch<T>(n * own.size());
    const auto of = [&](std::size_t k) { return k == me ? own.data() : others + k * own.size(); };
    exchange(
        group, member, [&](std::size_t k) { return bytes_of(slice(k)); },
        [&](std::size_t k) { return bytes_of(std::span<T>(of(k), own.size())); });
    T* const sum = others + me * own.size();  // the one place that nothing was received into
    std::copy_n(of(0), own.size(), sum);
    for (std::size_t k = 1; k < n; ++k)
      for (std::size_t i = 0; i < own.size(); ++i) sum[i] += of(k)[i];
    std::copy_n(sum, own.size(), own.data());
  }

  template <class T>
  static Block bytes_of(std::span<T> values) {
    return std::as_writable_bytes(values);
  }

  // In segments, so that the buffers of a large model stay small. Each member sums one slice of a segment and sends the
  // sum to all.
  template <class T>
  void all_reduce(int group, int member, T* data, std::size_t count) {
    const std::size_t n = members(group).size();
    constexpr std::size_t kSegment = std::size_t{1} << 20;  // elements
    for (std::size_t begin = 0; begin < count; begin += kSegment) {
      const std::size_t size = std::min(kSegment, count - begin);
      const auto slice = [&](std::size_t k) {
        const std::size_t first = size * k / n, last = size * (k + 1) / n;
        return std::span<T>(data + begin + first, last - first);
      };
      sum_own_slice<T>(group, member, slice);
      exchange(
          group, member, [&](std::size_t) { return bytes_of(slice(static_cast<std::size_t>(member))); },
          [&](std::size_t k) { return bytes_of(slice(k)); });
    }
  }

  template <class T>
  void reduce_scatter(int group, int member, T* data, std::size_t count) {
    sum_own_slice<T>(group, member, [&](std::size_t k) { return std::span<T>(data + k * count, count); });
  }

  // All processes call this at the end of a run. Each tells every other one how many messages it has sent to it, and
  // receives those that the run did not. Until these numbers are known nobody probes: the message of a quicker process
  // might belong to the next run.
  void close() {
    if (helper_.joinable()) {
      {
        const std::lock_guard lock(helping_);
        closing_ = true;
      }
      changed_.notify_all();
      helper_.join();
    }
    const auto n = static_cast<std::size_t>(process_.size);
    std::vector<std::int64_t> told(2 * n), heard(2 * n);
    for (std::size_t k = 0; k < n; ++k) {
      told[2 * k] = counts_[k].sent_messages;
      told[2 * k + 1] = counts_[k].sent_exchanges;
    }
    MPI_Request request;
    MPI_Ialltoall(told.data(), 2, MPI_INT64_T, heard.data(), 2, MPI_INT64_T, process_.exchanges, &request);
    Backoff backoff(process_.crowded);
    for (int done = 0; !done; backoff.pause()) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      finish_sends();
    }
    for (std::size_t k = 0; k < n; ++k) {
      receive_rest(process_.messages, static_cast<int>(k), heard[2 * k] - counts_[k].got_messages);
      receive_rest(process_.exchanges, static_cast<int>(k), heard[2 * k + 1] - counts_[k].got_exchanges);
    }
    for (Source& source : sources_) wait(source.request);
    for (Expected& e : expected_) wait(e.request);
    for (auto* list : {&outgoing_, &exchanged_})
      for (Outgoing& out : *list)
        for (MPI_Request& r : out.requests) wait(r);
  }

  void receive_rest(MPI_Comm comm, int from, std::int64_t messages) {
    std::vector<std::byte> room;
    Backoff backoff(process_.crowded);
    while (messages > 0) {
      int found = 0, size = 0;
      MPI_Message handle;
      MPI_Status status;
      MPI_Improbe(from, MPI_ANY_TAG, comm, &found, &handle, &status);
      finish_sends();
      if (!found) {
        backoff.pause();
        continue;
      }
      MPI_Get_count(&status, MPI_BYTE, &size);
      room.resize(size);
      MPI_Request request;
      MPI_Imrecv(room.data(), size, MPI_BYTE, &handle, &request);
      wait(request);
      --messages;
    }
  }

  void wait(MPI_Request& request) {
    Backoff backoff(process_.crowded);
    for (int done = 0; !done; backoff.pause()) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }

  const MpiProcess process_;
  std::mutex& mpi_ = *process_.mpi;
  const Program& program_;
  const std::vector<std::vector<Rank>> groups_;
  MessageCodec& codec_;
  std::atomic<bool> aborted_{false};
  std::atomic<int> waiting_{0};
  bool announced_ = false;
  std::vector<Source> sources_;            // per process
  std::vector<Destination> destinations_;  // per process
  std::vector<Counts> counts_;             // per process
  std::deque<Outgoing> outgoing_;
  // Of the collective in progress.
  std::deque<Outgoing> exchanged_;
  std::vector<Expected> expected_;
  std::vector<std::byte> scratch_;

  std::mutex helping_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::thread helper_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const MpiProcess& process, const Program& program, MessageCodec& codec) {
  return std::make_unique<MpiTransport>(process, program, codec);
}

}  // namespace sluice

#endif
