// The record of a case before it has trained: the case itself, its plan and its program. Training adds the rest.
#pragma once

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "harness/program/program.h"
#include "harness/sim/memory.h"
#include "results/record.h"

namespace sluice {

// The record of a case that has not run: its settings and the environment.
Record record_of(const RunCase& c);

void describe_plan(const RunCase& c, const Prepared& prepared, Record& record);

// Theory, bytes sent, versions and predicted memory of a program of `microbatches` micro-batches; memory: of memory()
// for that program.
void describe_program(const RunCase& c, const Prepared& prepared, const Program& program, int microbatches,
                      const std::vector<RankMemory>& memory, Record& record);

}  // namespace sluice
