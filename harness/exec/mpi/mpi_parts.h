// Shared by mpi.cpp and mpi_transport.cpp; the only header that includes MPI's.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "harness/exec/process_group.h"
#include "harness/program/program.h"

namespace sluice {

// MPI counts in int: larger blocks of memory are sent in parts of at most this many bytes.
inline constexpr std::size_t kLargestPart = std::size_t{1} << 30;

// How to wait for MPI. If there are no more processes than cores, an answer is microseconds away; if there are more,
// spinning takes processor time from the other process.
class Backoff {
 public:
  // A process with a core of its own spins for the time of a message of a few MiB.
  explicit Backoff(bool crowded) : spins_(crowded ? 20 : 4000), yields_(spins_ + (crowded ? 400 : 8000)) {}
  void pause() {
    ++turn_;
    if (turn_ < spins_) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (turn_ < yields_) {
      std::this_thread::yield();
    } else {
      const bool long_wait = turn_ > yields_ + 3600;
      std::this_thread::sleep_for(std::chrono::microseconds(long_wait ? 1000 : 50));
    }
  }
  int turn() const { return turn_; }

 private:
  int spins_, yields_, turn_ = 0;
};

// This process's place in the job, and what its transports share.
struct MpiProcess {
  MPI_Comm messages = MPI_COMM_NULL;   // a program's messages, one channel per pair of ranks
  MPI_Comm exchanges = MPI_COMM_NULL;  // its collectives, and notices that a rank has stopped
  int rank = 0, size = 1;
  // One thread at a time calls MPI: the rank's, a helper's, the watchdog's or the main one.
  std::shared_ptr<std::mutex> mpi = std::make_shared<std::mutex>();
  bool crowded = false;      // more processes than cores on this machine
  bool spare_cores = false;  // enough for a thread that moves messages while the rank computes
};

std::unique_ptr<Transport> make_mpi_transport(const MpiProcess& process, const Program& program, MessageCodec& codec);

}  // namespace sluice
