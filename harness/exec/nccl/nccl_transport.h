// Messages between GPUs over NCCL. An additional host transport provides what NCCL lacks: the header of a message (the
// sizes of its tensors), its order, and the information that it was sent.
//
//   sender                                     receiver
//   channel's stream waits for the compute     header <- host transport (blocks the thread only)
//   stream's event; header -> host transport;  makes room on the channel's stream; ncclRecv there;
//   ncclSend on the channel's stream;          event behind it: Message::ready, for which the
//   keeps the tensors until its event passed   compute stream waits, not the host
//
// So a send returns at once for any receiver, as a Program requires. A receive is posted only after its send, so that
// no kernel spins for a message whose host is far behind. Both overlap the compute of the ranks. Collectives run on the
// group's stream between two events; they add in NCCL's order, not in that of the replicas.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "harness/exec/nccl/communicators.h"
#include "harness/exec/nccl/device_calls.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// The transport's view of a message's payload.
class MessageBuffers {
 public:
  virtual ~MessageBuffers() = default;
  // Enough for room_for() on the other side. May replace the payload by one that can be sent, with
  // work on the rank's compute stream.
  virtual std::vector<std::int64_t> header(const Message& message) = 0;
  // An empty message of that form in memory of the calling rank's device, to be written on `stream`.
  virtual Message room_for(std::span<const std::int64_t> header, DeviceCalls::Stream stream) = 0;
  virtual std::vector<DeviceBuffer> buffers(const Message& message) = 0;
};

// Communicators and streams of the ranks of this process; they outlive a run.
class NcclLinks {
 public:
  struct LocalRank {
    Rank rank;
    int device = 0;
    DeviceCalls::Stream compute = nullptr;  // what the rank computes on
  };
  // ids: one per communicator, the same on every process (make_ids() on one of them, then broadcast). Connects all
  // ranks of this process, each on a separate thread; returns when all are connected. Throws RunError: NCCL's reason,
  // more than `timeout_seconds`, or a rank that needs too many streams.
  NcclLinks(CommunicatorPlan plan, std::vector<LocalRank> ranks, std::vector<NcclId> ids, DeviceCalls& calls,
            double timeout_seconds = 120);
  ~NcclLinks();
  NcclLinks(const NcclLinks&) = delete;

  static std::vector<NcclId> make_ids(const CommunicatorPlan& plan, DeviceCalls& calls);

  // One end of a communicator. Its rank's thread uses it, and any thread may abort it: both through with().
  struct End {
    DeviceCalls::Stream stream = nullptr;
    const LocalRank* rank = nullptr;
    int member = 0;
    std::mutex mutex;
    DeviceCalls::Comm comm = nullptr;
  };
  // The end of member `member`, which must be in this process.
  End& end(int communicator, int member);
  const CommunicatorPlan& plan() const { return plan_; }
  DeviceCalls& calls() { return calls_; }

  // Makes a call on the end's communicator and waits until NCCL has accepted it. Throws
  // TransportAborted, or RunError with what went wrong on any rank of this process.
  void ask(End& end, const std::function<void(DeviceCalls::Comm)>& what);
  void throw_if_broken() const;
  // Aborts every communicator of this process; the links cannot be used any more.
  void abort();
  void fail(const std::string& reason);  // abort(), with the reason; the first call sets it
  bool broken() const { return broken_.load(); }
  // Whether any communicator reports an asynchronous error; if so, it has been passed to fail().
  bool poll();

 private:
  void connect(const LocalRank& rank, double timeout_seconds);
  DeviceCalls::State state(End& end);
  void release();

  CommunicatorPlan plan_;
  std::vector<LocalRank> ranks_;
  std::vector<NcclId> ids_;
  DeviceCalls& calls_;
  std::vector<std::vector<std::unique_ptr<End>>> ends_;  // [communicator][member]
  std::atomic<bool> broken_{false};
  mutable std::mutex mutex_;  // of ends_ while they are made, and of the reason
  std::string reason_;
};

// One run of `program`. `host` carries headers between the same channels and is aborted with this; links: of
// plan_communicators(program). During its life, a thread polls NCCL for asynchronous errors ten times a second; one
// aborts the run.
std::unique_ptr<Transport> make_nccl_transport(const Program& program, NcclLinks& links,
                                               std::unique_ptr<Transport> host, MessageBuffers& buffers);

}  // namespace sluice
