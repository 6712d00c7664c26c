// The cases on which the virtual clock is compared with the wall clock (`sluice validate`). None of them is measured by
// a profile: profiles run the whole model on every rank, in an order that no system has.
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
  bool processes = false;  // cases over MPI as well
  bool few = false;        // one case of each kind, on small workloads
  DeviceKind device = DeviceKind::cpu;
};

// Every system with several workloads and numbers of micro-batches; on CPUs then recomputation, batched weight
// gradients, sharding, data-parallel replicas and processes instead of threads. Cases that are the same experiment are
// there once.
std::vector<ValidationCase> validation_cases(const ValidationScope& scope);

// Those whose label holds `text`.
std::vector<ValidationCase> filtered(std::vector<ValidationCase> cases, const std::string& text);

// The same case with other lengths, on either clock.
RunCase of_steps(const ValidationCase& c, int steps);
RunCase on_virtual_clock(const ValidationCase& c, int steps);

}  // namespace sluice
