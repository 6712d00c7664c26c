// Checkpoints of one training: after an evaluation, the session's file (weights, optimizer state, counters) and, in the
// same folder, the record so far, which names it. The record's file is replaced last, so the file that it names is
// always whole.
#pragma once

#include <string>
#include <vector>

#include "harness/exec/process_group.h"
#include "harness/exec/session.h"
#include "harness/train/segments.h"
#include "results/record.h"

namespace sluice {

class Checkpoints {
 public:
  // folder: "": no checkpoints, and all functions do nothing. digest: of the case. processes: those that train it, of
  // which the first writes; null: only this one. Every function is collective over them.
  Checkpoints(std::string folder, std::string digest, ProcessGroup* processes);

  // Replaces the previous checkpoint. If a file cannot be written (the disk is full), it warns, and no more are kept.
  void save(const Session& session, const Record& record, const TrainingPosition& position);
  // Sets session and record from the checkpoint, except the record's environment, which is that of the machine that
  // ends the run. segments: of the whole training. of_any_plan: the training may have moved to another plan (Adapter).
  // Returns where to continue; the start if there is no checkpoint. Throws InputError: an invalid file, or one of
  // another case, model, plan or optimizer, or with contradictions.
  TrainingPosition restore(Session& session, Record& record, const std::vector<UndrainedSegment>& segments,
                           bool of_any_plan = false) const;
  void delete_all() const;  // of this case

 private:
  bool leads() const { return !processes_ || processes_->rank() == 0; }
  std::string record_file() const { return stem_ + ".json"; }
  std::string state_file(std::size_t next) const { return stem_ + "." + std::to_string(next) + ".state"; }
  void make_folder() const;
  void write_record(const Record& record, const TrainingPosition& position) const;
  // A checkpoint whose numbers contradict its case; "": no fault.
  std::string what_is_wrong(const Record& record, const TrainingPosition& position,
                            const std::vector<UndrainedSegment>& segments) const;

  std::string folder_, digest_, stem_;
  ProcessGroup* processes_;
};

}  // namespace sluice
