// The cases that compare the virtual clock with the wall clock (`sluice validate`). No profile measures one of them:
// profiles run the whole model on every rank, in an order that no system has.
#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/case.h"

namespace sluice {

struct ValidationCase {
  std::string label;  // "one_f_one_b mlp1024, 8 micro-batches of 32"
  Json entry;         // of a sweep, on the wall clock
  RunCase wall;       // read from it
};

struct ValidationScope {
  int ranks = 2;
  bool processes = false;  // also cases over MPI
  bool few = false;        // one case of each kind, with small workloads
  DeviceKind device = DeviceKind::cpu;
};

// Every system with several workloads and numbers of micro-batches; on CPUs also recomputation, batched weight
// gradients, sharding, data-parallel replicas and processes instead of threads. Equal experiments are included once.
std::vector<ValidationCase> validation_cases(const ValidationScope& scope);

// Cases whose label contains `text`.
std::vector<ValidationCase> filtered(std::vector<ValidationCase> cases, const std::string& text);

// The same case with another number of steps, on either clock.
RunCase of_steps(const ValidationCase& c, int steps);
RunCase on_virtual_clock(const ValidationCase& c, int steps);

}  // namespace sluice
