// Checkpoints of one training: after an evaluation, the session's file (weights, optimizer state, counters) and, beside
// it, the record so far, which names it. The record's file is replaced last, so that what it names is always whole.
#pragma once

#include <string>

#include "harness/exec/process_group.h"
#include "harness/exec/session.h"
#include "harness/train/segments.h"
#include "results/record.h"

namespace sluice {

class Checkpoints {
 public:
  // folder: where they are kept; "": nowhere, and nothing here does anything. digest: of the case. processes: those
  // that train it, whose first writes; null: only this one. Every function is collective over them.
  Checkpoints(std::string folder, std::string digest, ProcessGroup* processes);

  // Replaces the checkpoint before. Throws InputError: a file cannot be written.
  void save(const Session& session, const Record& record, const TrainingPosition& position) const;
  // Gives session and record what the checkpoint has, but for the record's environment, which is that of the machine
  // that ends the run. Returns where to go on; the start if there is no checkpoint. Throws InputError: a file that is
  // none, or of another model, plan or optimizer.
  TrainingPosition restore(Session& session, Record& record) const;
  void delete_all() const;  // of this case

 private:
  bool leads() const { return !processes_ || processes_->rank() == 0; }
  std::string record_file() const { return stem_ + ".json"; }
  std::string state_file(std::size_t next) const { return stem_ + "." + std::to_string(next) + ".state"; }
  void write_record(const Record& record, const TrainingPosition& position) const;

  std::string folder_, digest_, stem_;
  ProcessGroup* processes_;
};

}  // namespace sluice
