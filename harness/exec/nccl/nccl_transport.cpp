#include "harness/exec/nccl/nccl_transport.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "harness/base/error.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

std::vector<NcclId> NcclLinks::make_ids(const CommunicatorPlan& plan, DeviceCalls& calls) {
  std::vector<NcclId> ids;
  for (std::size_t k = 0; k < plan.communicators.size(); ++k) ids.push_back(calls.make_id());
  return ids;
}

NcclLinks::NcclLinks(CommunicatorPlan plan, std::vector<LocalRank> ranks, std::vector<NcclId> ids, DeviceCalls& calls,
                     double timeout_seconds)
    : plan_(std::move(plan)), ranks_(std::move(ranks)), ids_(std::move(ids)), calls_(calls) {
  if (const std::size_t streams = max_streams(plan_); streams > kConcurrentStreams)
    throw RunError("a rank would need " + std::to_string(streams) + " streams for its channels, and a GPU runs " +
                   std::to_string(kConcurrentStreams) + " side by side; use fewer ranks");
  for (const Communicator& c : plan_.communicators) ends_.emplace_back(c.members.size());
  std::vector<std::thread> threads;
  for (const LocalRank& rank : ranks_)
    threads.emplace_back([&, timeout_seconds] {
      try {
        connect(rank, timeout_seconds);
      } catch (const TransportAborted&) {
        // Another rank of this process failed first.
      } catch (const std::exception& e) {
        fail("rank " + std::to_string(rank.rank.value) + ": " + e.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (broken()) {
    release();
    throw RunError("NCCL could not connect the ranks: " + reason_);
  }
}

NcclLinks::~NcclLinks() { release(); }

void NcclLinks::release() {
  // Nothing runs on them any more, and an abort, unlike NCCL's destroy, waits for no other rank.
  abort();
  for (auto& members : ends_)
    for (const auto& end : members)
      if (end) calls_.drop_stream(end->stream);
  ends_.clear();
}

void NcclLinks::connect(const LocalRank& rank, double timeout_seconds) {
  const auto start = Clock::now();
  calls_.use_device(rank.device);
  const auto wait_until = [&](const auto& done) {
    while (!done()) {
      throw_if_broken();
      if (std::chrono::duration<double>(Clock::now() - start).count() > timeout_seconds)
        throw RunError("the other ranks did not come within " + std::to_string(static_cast<int>(timeout_seconds)) +
                       " s");
      pause();
    }
  };
  // Polls: the other members may be far behind.
  const auto connected = [&](End& end, const auto& what) {
    {
      const std::lock_guard lock(end.mutex);
      throw_if_broken();
      what(end);
    }
    wait_until([&] { return state(end).kind != DeviceCalls::State::Kind::in_progress; });
    ask(end, {});
  };
  for (const int c : plan_.of_rank[rank.rank.index()]) {
    const Communicator& communicator = plan_.communicators[c];
    const auto member =
        static_cast<int>(std::ranges::find(communicator.members, rank.rank) - communicator.members.begin());
    auto made = std::make_unique<End>();
    End& end = *made;
    end.rank = &rank;
    end.member = member;
    end.stream = calls_.make_stream();
    {
      const std::lock_guard lock(mutex_);
      ends_[c][member] = std::move(made);
    }
    connected(end,
              [&](End& e) { e.comm = calls_.connect(ids_[c], static_cast<int>(communicator.members.size()), member); });
  }
  // NCCL connects two ranks at their first message, and that blocks the host at both ends: have it
  // now, in the common order, and not in the middle of a schedule.
  for (const int c : plan_.of_rank[rank.rank.index()]) {
    const Communicator& communicator = plan_.communicators[c];
    if (communicator.use != Communicator::Use::channel) continue;
    End& own = end(c, communicator.members.front() == rank.rank ? 0 : 1);
    connected(own, [&](End& e) {
      if (e.member == 0) {
        calls_.send(e.comm, 1, {calls_.scratch()}, e.stream);
      } else {
        calls_.receive(e.comm, 0, {calls_.scratch()}, e.stream);
      }
    });
    const DeviceCalls::Event done = calls_.record(own.stream);
    wait_until([&] { return calls_.passed(done); });
  }
}

NcclLinks::End& NcclLinks::end(int communicator, int member) { return *ends_[communicator][member]; }

DeviceCalls::State NcclLinks::state(End& end) {
  const std::lock_guard lock(end.mutex);
  throw_if_broken();
  return calls_.state(end.comm);
}

void NcclLinks::ask(End& end, const std::function<void(DeviceCalls::Comm)>& what) {
  if (what) {
    const std::lock_guard lock(end.mutex);
    throw_if_broken();
    what(end.comm);
  }
  for (;;) {
    const DeviceCalls::State now = state(end);
    if (now.kind == DeviceCalls::State::Kind::ready) return;
    if (now.kind == DeviceCalls::State::Kind::failed) throw RunError("NCCL: " + now.error);
    std::this_thread::yield();
  }
}

void NcclLinks::throw_if_broken() const {
  if (!broken_.load()) return;
  const std::lock_guard lock(mutex_);
  if (reason_.empty()) throw TransportAborted();
  throw RunError(reason_);
}

void NcclLinks::abort() {
  broken_.store(true);
  std::vector<End*> all;
  {
    const std::lock_guard lock(mutex_);
    for (auto& members : ends_)
      for (const auto& end : members)
        if (end) all.push_back(end.get());
  }
  for (End* end : all) {
    const std::lock_guard lock(end->mutex);
    if (end->comm) calls_.abort(end->comm);
    end->comm = nullptr;
  }
}

void NcclLinks::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.load() && reason_.empty()) reason_ = reason;
  }
  abort();
}

bool NcclLinks::poll() {
  for (auto& members : ends_)
    for (const auto& end : members) {
      if (!end) continue;
      DeviceCalls::State now;
      {
        const std::lock_guard lock(end->mutex);
        if (broken() || !end->comm) return false;
        now = calls_.state(end->comm);
      }
      if (now.kind != DeviceCalls::State::Kind::failed) continue;
      fail("rank " + std::to_string(end->rank->rank.value) + ": NCCL: " + now.error);
      return true;
    }
  return false;
}

namespace {

class NcclTransport : public Transport {
 public:
  NcclTransport(const Program& program, NcclLinks& links, std::unique_ptr<Transport> host, MessageBuffers& buffers)
      : links_(links), calls_(links.calls()), host_(std::move(host)), buffers_(buffers) {
    for (std::size_t c = 0; c < program.channels.size(); ++c) sent_.push_back(std::make_unique<std::deque<Sent>>());
    monitor_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return done_; }))
        if (links_.poll()) host_->abort();
    });
  }

  ~NcclTransport() override {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    monitor_.join();
    // The receivers have what they were sent, so the last events pass in a moment.
    for (const auto& channel : sent_)
      for (const Sent& s : *channel)
        while (!links_.broken() && s.done && !calls_.passed(s.done)) pause();
  }

  void send(int channel, Message message) override {
    std::deque<Sent>& sent = *sent_[channel];
    while (!sent.empty() && sent.front().done && calls_.passed(sent.front().done)) sent.pop_front();
    // Before anything can throw: the compute stream may be writing it still, and in a run that ends
    // early nothing else has it.
    sent.push_back({message, {}});
    links_.throw_if_broken();
    NcclLinks::End& end = end_of(channel, 0);
    auto header = std::make_shared<std::vector<std::int64_t>>(buffers_.header(message));
    calls_.wait(end.stream, calls_.record(end.rank->compute));
    guarded([&] { host_->send(channel, {header, {}}); });
    links_.ask(end, [&](DeviceCalls::Comm comm) { calls_.send(comm, 1, buffers_.buffers(message), end.stream); });
    sent.back().done = calls_.record(end.stream);
  }

  Message receive(int channel) override {
    NcclLinks::End& end = end_of(channel, 1);
    Message header;
    guarded([&] { header = host_->receive(channel); });
    links_.throw_if_broken();
    Message message = buffers_.room_for(*static_cast<std::vector<std::int64_t>*>(header.payload.get()), end.stream);
    links_.ask(end, [&](DeviceCalls::Comm comm) { calls_.receive(comm, 0, buffers_.buffers(message), end.stream); });
    message.ready = calls_.record(end.stream);
    return message;
  }

  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    collective(Reach::reduce, group, member, data, count, type);
  }
  bool begin_all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    begin(Reach::reduce, group, member, data, count, type);
    return true;
  }
  void finish_all_reduces(int group, int member) override {
    const int communicator = links_.plan().of_group[group];
    if (communicator < 0) return;  // one member
    NcclLinks::End& end = links_.end(communicator, member);
    calls_.wait(end.rank->compute, calls_.record(end.stream));
  }
  void all_gather(int group, int member, const Shard& /*own*/, void* data, std::size_t count,
                  ElementType type) override {
    collective(Reach::gather, group, member, data, count, type);
  }
  void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) override {
    collective(Reach::scatter, group, member, data, count, type);
  }

  void abort() override {
    links_.abort();
    host_->abort();
  }
  bool stopped() override {
    if (!host_->stopped()) return false;
    links_.abort();  // another process has stopped: what waits for it on the GPU must end too
    return true;
  }

 private:
  struct Sent {
    Message message;  // kept until its bytes have left, or the transport ends
    DeviceCalls::Event done;
  };

  NcclLinks::End& end_of(int channel, int member) { return links_.end(links_.plan().of_channel[channel], member); }

  // The host transport is aborted with the links: then their reason counts.
  void guarded(const auto& work) {
    try {
      work();
    } catch (const TransportAborted&) {
      links_.throw_if_broken();
      throw;
    }
  }

  void collective(Reach reach, int group, int member, void* data, std::size_t count, ElementType type) {
    begin(reach, group, member, data, count, type);
    finish_all_reduces(group, member);
  }

  void begin(Reach reach, int group, int member, void* data, std::size_t count, ElementType type) {
    links_.throw_if_broken();
    const int communicator = links_.plan().of_group[group];
    if (communicator < 0) return;  // one member
    NcclLinks::End& end = links_.end(communicator, member);
    calls_.wait(end.stream, calls_.record(end.rank->compute));
    links_.ask(end,
               [&](DeviceCalls::Comm comm) { calls_.collective(reach, comm, member, data, count, type, end.stream); });
  }

  NcclLinks& links_;
  DeviceCalls& calls_;
  std::unique_ptr<Transport> host_;
  MessageBuffers& buffers_;
  std::vector<std::unique_ptr<std::deque<Sent>>> sent_;  // by channel; the sender's thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread monitor_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(const Program& program, NcclLinks& links,
                                               std::unique_ptr<Transport> host, MessageBuffers& buffers) {
  return std::make_unique<NcclTransport>(program, links, std::move(host), buffers);
}

}  // namespace sluice
