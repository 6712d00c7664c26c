// Checked programs of a prepared case, and the decisions that go into them.
#pragma once

#include "harness/case/prepared.h"
#include "harness/pipeline/sharding.h"
#include "harness/pipeline/weight_rule.h"
#include "harness/program/program.h"

namespace sluice {

// The problem of an order: one replica of the pipeline with its share of the micro-batches.
ScheduleProblem schedule_problem(const Prepared& p, int microbatches, int epoch = 0);

// The program of one update (synchronous systems: microbatches per update) or of one drained run (asynchronous systems
// and inference: microbatches of the whole run). epoch: of the training, from 0.
Program make_program(const Prepared& p, int microbatches, int epoch = 0);

// What the data-parallel ranks of a stage divide among themselves.
Sharding sharding_of(const Prepared& p, int microbatches);
WeightRule rule_of(const Prepared& p, int microbatches, int epoch = 0);

}  // namespace sluice
