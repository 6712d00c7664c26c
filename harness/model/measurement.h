// What `sluice profile` measures inside runs beyond the seconds of the layers; part of a cost graph (cost_graph.h).
#pragma once

#include <optional>
#include <string>

#include "harness/base/quantities.h"

namespace sluice {

class Json;
class JsonReader;

// What measuring inside a run (`sluice profile`) says of one pass of a layer beyond its seconds, which are those next
// to idle neighbours.
struct PassMeasurement {
  double contended = 1;  // how many times as long it takes while all the other ranks of the machine are busy
  double half = 1;       // how many times as long where the rank holds half of the layers: its working set is smaller
  double spread = 0;     // half the distance between the quartiles, as a part of the median
  Bytes peak, left;      // counted memory above that before the pass: the most, and at its end
};

struct LayerMeasurement {
  PassMeasurement forward, input_gradient, weight_gradient, update;
  PassMeasurement unstashed;  // a forward that keeps its input only; its memory
  Seconds clear;              // of zeroing the gradients, before the first of an update
  bool keeps_output = false;  // its output is kept for its backward, so that a message of it is a copy
  // Weight gradients of several micro-batches as one product, divided by their number; absent: not measured.
  std::optional<Seconds> batched_weight_gradient = {};
  // Of one micro-batch, ops after its input gradient; absent: not measured.
  std::optional<Seconds> split_weight_gradient = {};
};

// What messages and collectives cost between two processes of an MPI job.
struct BetweenProcesses {
  // Of the sender and of the receiver, besides MachineCosts::send and receive: of each message and, in seconds, of each
  // of its bytes.
  Seconds message;
  double byte = 0;
  // Seconds per byte, as of the same names in MachineCosts; 0: not measured.
  double reduce = 0, gather = 0, scatter = 0;
  bool measured() const { return reduce > 0; }
};

// Reference speeds of a machine, of three fixed tasks (harness/exec/machine_speeds.h). Only their ratios to the same
// speeds at another time have a meaning.
struct MachineSpeeds {
  double arithmetic = 0;  // a matrix product of one thread: multiply-adds per second
  double memory = 0;      // a copy by one thread of more than a core's own caches hold: bytes per second
  double message = 0;     // two threads that answer each other: round trips per second
};

// What a machine's executor costs in addition to the layers, as measured by `sluice profile`.
struct MachineCosts {
  std::string machine, build;    // processor and cores; program and LibTorch
  std::string made;              // when: "2026-01-31T12:00:00Z"
  int neighbours = 0;            // other ranks that were busy when the contended costs were measured
  int batched_microbatches = 0;  // micro-batches that LayerMeasurement::batched_weight_gradient was measured with
  Seconds send, receive;         // of a rank, for each of its messages
  // What an op takes in addition to its layers. A backward is one op, whether it has the weight gradient or not.
  Seconds forward_op, backward_op, weight_gradient_op;
  double copy = 0;    // seconds per byte of a tensor that is copied for a message
  Seconds wake_up;    // latency from a message to a rank that sleeps until it comes
  Seconds notify;     // of a sender, for waking a rank that sleeps
  Seconds spin_time;  // how long a rank that waits stays awake
  double reduce = 0;  // seconds per byte of an all-reduce between two ranks
  // Of sharded weights and gradients, seconds per byte that a rank reads of the others' slices.
  double gather = 0, scatter = 0;
  double predict = 0;  // seconds per byte of weights that are predicted
  // How many times as long the passes of a stage take if another rank computes its weight gradients: its stashes go
  // from core to core, and the memory of every one is written again.
  struct Apart {
    double forward = 1, input_gradient = 1, weight_gradient = 1;
  } apart;
  // Where the ranks are processes; all 0: not measured, and then they cost what they cost between threads.
  BetweenProcesses processes;
  std::optional<MachineSpeeds> speeds = {};  // when it was measured; absent: on a GPU
};

Json to_json(const BetweenProcesses& processes);
BetweenProcesses between_processes_from_json(JsonReader& reader);  // throws InputError

}  // namespace sluice
