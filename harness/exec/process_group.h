// ProcessGroup: the processes that run one program, process r its rank r, and their exchange outside its messages
// (transport.h): errors to agree on, results, and tensors for evaluations and checkpoints. A run on threads has none.
// harness/exec/mpi/mpi.h makes one; harness/exec/torch and harness/run use it without MPI.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// How a message, whose payload only the workers know, is sent to another process: a header of a few bytes that
// describes it, and its contents as blocks of memory, which are sent without a copy. Headers repeat (shapes do not
// change), so each is sent once.
class MessageCodec {
 public:
  virtual ~MessageCodec() = default;
  struct Encoded {
    std::vector<std::byte> header;
    std::vector<std::span<std::byte>> parts;  // live as long as the message's payload
  };
  // May replace the payload by contiguous memory, which can be sent.
  virtual Encoded encode(Message& message) = 0;
  // A message of that description with memory for its contents; `parts` are its blocks, with the sender's sizes. Called
  // on the thread of the receiving rank or on a helper thread.
  virtual Message make_room(std::span<const std::byte> header, std::vector<std::span<std::byte>>& parts) = 0;
};

// All members call the collective functions in the same order, from the thread that made the process group, and never
// while a program runs. If a member has died, the whole job ends without an exception (see mpi/failure_detector.h).
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual std::string broadcast(const std::string& bytes, int root) = 0;      // returns the root's
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;  // per member
  virtual void barrier() = 0;
  // Between two members, in order. A send does not wait for the receiver: it returns when its bytes may be reused, so
  // two members may send to one another before they receive.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  virtual std::vector<std::byte> receive(int from) = 0;

  // The group of the first n members; null in the others. Collective over all.
  virtual std::unique_ptr<ProcessGroup> first(int n) = 0;
  // For one run of a program with a rank for every member. Making and destroying it is collective. It is destroyed,
  // after any end of the run, before the next one is made, and then receives the messages that an abandoned run left
  // unreceived. `program` and `codec` outlive it.
  virtual std::unique_ptr<Transport> transport(const Program& program, MessageCodec& codec) = 0;
};

// An error that every member of a process group throws.
class AgreedError : public InputError {
 public:
  using InputError::InputError;
  bool printed = false;  // by the first member
};

// Does work that may fail in some members only; then all members throw the error of the first that failed, as an
// AgreedError, or Stopped if one was stopped. Collective. Without a process group (null) it only does the work.
void agree_on_error(ProcessGroup* processes, const std::function<void()>& work);

}  // namespace sluice
