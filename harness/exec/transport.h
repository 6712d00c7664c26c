// Transport: how ranks exchange messages. Only workers know the content of a message (tensors, in harness/exec/torch).
// A program has one channel per sender and receiver, first in first out; sends do not wait for the receiver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "harness/base/ids.h"

namespace sluice {

struct Message {
  std::shared_ptr<void> payload;
  // An event of the device that makes the payload (cudaEvent_t): readers of the payload must be queued behind it. Empty
  // on the CPU, where a message is complete when it arrives.
  std::shared_ptr<void> ready = {};
  // Numbers sent with it, between the executors (window_reports.h); usually none.
  std::shared_ptr<const std::vector<double>> note = {};
};

// Thrown out of a blocked call when another rank failed or the run was stopped.
class TransportAborted : public std::runtime_error {
 public:
  TransportAborted() : std::runtime_error("the run was stopped") {}
};

enum class ElementType { float32, float64 };

// A member's slice of a sharded stage's weights: its memory (it is also in the gathered weights), and the number of
// optimizer steps that made it.
struct Shard {
  const void* data = nullptr;
  std::int64_t version = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(int channel, Message message) = 0;
  virtual Message receive(int channel) = 0;
  // Sum over a stage's replicas, in place, added in the order of the replicas on every rank.
  // `member` is the caller's place among them.
  virtual void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) = 0;
  // An all-reduce in two halves, for transports whose collectives run after what the rank's device has queued. It
  // begins when that is done, and what the rank queues after finish_all_reduces() waits for all that the group has
  // begun. False: all-reduces block; nothing has happened.
  virtual bool begin_all_reduce(int, int, void*, std::size_t, ElementType) { return false; }
  virtual void finish_all_reduces(int /*group*/, int /*member*/) {}
  // The halves of an all-reduce, for stages whose weights are sharded over the group. `data` holds members x `count`
  // elements; slice k has the elements [k count, (k + 1) count). all_gather: slice `member` is the caller's own, set on
  // entry; all slices are set on return. `own` is for ranks that can read one another's memory: it stays unchanged
  // until the caller has the result of a reduce_scatter of the group that it began after this gather, or the run has
  // ended.
  virtual void all_gather(int group, int member, const Shard& own, void* data, std::size_t count, ElementType type) = 0;
  // reduce_scatter: on return slice `member` holds the sum over the members, added in their order;
  // the other slices are unspecified.
  virtual void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) = 0;
  // Sends the caller's elements to all members, and receives theirs: `send` has send_counts[k] elements for member k,
  // in the order of the members, `receive` gets receive_counts[k] from member k, likewise. Each member's send_counts
  // agree with the others' receive_counts. Only transports between threads and between processes have it.
  virtual void all_to_all(int /*group*/, int /*member*/, const void* /*send*/,
                          std::span<const std::size_t> /*send_counts*/, void* /*receive*/,
                          std::span<const std::size_t> /*receive_counts*/, ElementType) {
    throw std::logic_error("this transport has no all-to-all");
  }
  // A reduce-scatter in two halves, between which a rank can continue. post_reduce_scatter: data may be changed on
  // return. False: this transport does not support it, or not for this size; nothing has happened. take_reduced: the
  // sum of the own slice of the oldest reduce-scatter that was posted and not taken, if more than `left` of them are,
  // else null. It belongs to the caller until its next post. At most kPosted may be left when another is posted.
  static constexpr int kPosted = 3;
  virtual bool post_reduce_scatter(int, int, const void*, std::size_t, ElementType) { return false; }
  virtual const void* take_reduced(int /*group*/, int /*member*/, int /*left*/) { return nullptr; }
  // Wakes every blocked call of every rank with TransportAborted. May be called from any thread.
  virtual void abort() = 0;
  // Whether a rank of another process has stopped the run. Polled, from any thread.
  virtual bool stopped() { return false; }
};

}  // namespace sluice
