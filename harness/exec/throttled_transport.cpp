#include "harness/exec/throttled_transport.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <queue>
#include <thread>

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

class ThrottledTransport : public Transport {
 public:
  ThrottledTransport(std::unique_ptr<Transport> inner, const Program& program, const Disturbance& disturbance,
                     std::function<double(const Message&)> bytes_of)
      : inner_(std::move(inner)), bytes_of_(std::move(bytes_of)) {
    for (const Channel& c : program.channels) channels_.push_back(link(disturbance, c.from, c.to));
    for (const std::vector<Rank>& ranks : collective_groups(program)) {
      Link ring;
      for (std::size_t k = 0; ranks.size() > 1 && k < ranks.size(); ++k) {
        const Link hop = link(disturbance, ranks[k], ranks[(k + 1) % ranks.size()]);
        ring.seconds_per_byte = std::max(ring.seconds_per_byte, hop.seconds_per_byte);
        ring.latency = std::max(ring.latency, hop.latency);
        ring.speed = PiecewiseSpeed::slower(ring.speed, hop.speed);
      }
      ring.members = static_cast<double>(ranks.size());
      groups_.push_back(ring);
    }
    carrier_ = std::thread([this] { carry(); });
  }

  ~ThrottledTransport() override {
    stop();
    carrier_.join();
    inner_.reset();
  }

  void send(int channel, Message message) override {
    Link& link = channels_[channel];
    const double now = since_start();
    // The moment at which the bucket has had tokens for all messages so far.
    const double transfer = bytes_of_(message) * link.seconds_per_byte;
    link.paid = link.speed.finish(std::max(link.paid, now - link.burst_seconds), transfer);
    const double arrival = std::max({link.paid, now, link.last_arrival - link.latency}) + link.latency;
    link.last_arrival = arrival;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push({arrival, sent_++, channel, std::move(message)});
    }
    changed_.notify_one();
  }
  Message receive(int channel) override {
    try {
      return inner_->receive(channel);
    } catch (const TransportAborted&) {
      rethrow();
      throw;
    }
  }

  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    const double begin = since_start();
    inner_->all_reduce(group, member, data, count, type);
    const double n = groups_[group].members;
    hold(group, begin, 2 * (n - 1), bytes(count, type) / n);
  }
  void all_gather(int group, int member, const Shard& own, void* data, std::size_t count, ElementType type) override {
    const double begin = since_start();
    inner_->all_gather(group, member, own, data, count, type);
    hold(group, begin, groups_[group].members - 1, bytes(count, type));
  }
  void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) override {
    const double begin = since_start();
    inner_->reduce_scatter(group, member, data, count, type);
    hold(group, begin, groups_[group].members - 1, bytes(count, type));
  }

  // One step for every other member.
  void all_to_all(int group, int member, const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, ElementType type) override {
    const double begin = since_start();
    inner_->all_to_all(group, member, send, send_counts, receive, receive_counts, type);
    const std::size_t sent = std::accumulate(send_counts.begin(), send_counts.end(), 0ul) - send_counts[member];
    const double others = groups_[group].members - 1;
    hold(group, begin, others, bytes(sent, type) / others);
  }

  void abort() override {
    stop();
    inner_->abort();
  }
  bool stopped() override { return inner_->stopped(); }

 private:
  struct Link {
    double seconds_per_byte = 0, latency = 0, burst_seconds = 0;
    PiecewiseSpeed speed;
    double paid = 0, last_arrival = 0;  // of the channel's sender
    double members = 1;                 // of a ring
  };
  struct Waiting {
    double arrival = 0;
    std::uint64_t number = 0;
    int channel = 0;
    Message message;
    bool operator<(const Waiting& other) const {  // the first to arrive is the queue's top
      return arrival != other.arrival ? arrival > other.arrival : number > other.number;
    }
  };

  static Link link(const Disturbance& d, Rank from, Rank to) {
    const LinkThrottle t = d.throttle.between(d.devices.at(from.index()), d.devices.at(to.index()));
    return {.seconds_per_byte = 1 / t.rate,
            .latency = t.latency.value,
            .burst_seconds = t.burst / t.rate,
            .speed = d.link_speed(from, to)};
  }
  static double bytes(std::size_t count, ElementType type) {
    return static_cast<double>(count) * (type == ElementType::float32 ? 4 : 8);
  }

  double since_start() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  Clock::time_point moment(double seconds) const {
    return start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // A ring of `steps` steps that began at `begin`.
  void hold(int group, double begin, double steps, double bytes) {
    const Link& ring = groups_[group];
    const double end = ring.speed.finish(begin, steps * bytes * ring.seconds_per_byte) + steps * ring.latency;
    std::this_thread::sleep_until(moment(end));
  }

  void rethrow() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
  }

  void carry() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (waiting_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const double arrival = waiting_.top().arrival;
      if (since_start() < arrival) {
        changed_.wait_until(lock, moment(arrival));
        continue;
      }
      Waiting first = std::move(const_cast<Waiting&>(waiting_.top()));
      waiting_.pop();
      lock.unlock();
      try {
        inner_->send(first.channel, std::move(first.message));
      } catch (const TransportAborted&) {  // the ranks learn it from the inner transport
        return;
      } catch (...) {
        lock.lock();
        failure_ = std::current_exception();
        lock.unlock();
        return inner_->abort();
      }
      lock.lock();
    }
  }

  std::unique_ptr<Transport> inner_;
  std::function<double(const Message&)> bytes_of_;
  std::vector<Link> channels_, groups_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Waiting> waiting_;
  std::uint64_t sent_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;  // of the carrier
  std::thread carrier_;
};

}  // namespace

std::unique_ptr<Transport> make_throttled_transport(std::unique_ptr<Transport> inner, const Program& program,
                                                    const Disturbance& disturbance,
                                                    std::function<double(const Message&)> bytes_of) {
  return std::make_unique<ThrottledTransport>(std::move(inner), program, disturbance, std::move(bytes_of));
}

}  // namespace sluice
