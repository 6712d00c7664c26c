// The rules of settings with more than a plain value: defaults that follow from the system and the workload (fill_...),
// settings that are objects (read_...), and values that contradict each other (check_...). The table of settings
// (settings.cpp) names them. Reading and checking throw InputError at the setting's place.
#pragma once

#include <string>

#include "harness/case/setting_value.h"

namespace sluice::setting {

bool on_wall(const CaseReading& r);
bool has_data(const CaseReading& r);  // the workload has a data set, not only random samples
bool infers(const RunCase& c);

// Sets the case's system, which the rules below use.
void read_system(CaseReading& r, const std::string& key);
void read_options(CaseReading& r, const std::string& key);
Json options_json(const RunCase& c);
// Options that have an effect neither for the task nor for the replicas get their defaults.
void canonicalize_options(RunCase& c, const System& system);
std::string why_option_is_unused(const CaseReading& r, const std::string& name);
// Whether two ops of the case run as an overlapped pair.
bool has_pairs(const RunCase& c, const System& system);
// The cluster's description without ",KEY=...".
std::string without_key(const std::string& cluster, const std::string& key);
// Sets the case's workload, which the rules below use.
void read_workload(CaseReading& r, const std::string& key);
// The digest of a workload file's content: two files of one name are two experiments.
void fill_workload_digest(CaseReading& r);
void check_workload_digest(CaseReading& r);
void check_task(CaseReading& r);
// The digests of the other files that the case reads.
void fill_file_digests(CaseReading& r);
void check_file_digests(CaseReading& r);

void check_costs(CaseReading& r);
// Runs on the virtual clock only (precision_rules.h).
void check_precision(CaseReading& r);
void check_attention(CaseReading& r);
// The transport and the device exist here, and agree with the clock and each other.
void check_transport_and_device(CaseReading& r);
// For settings of the wall clock. The virtual clock also accepts the name of `none`, as to_json() writes it.
template <ClosedChoice E>
SettingValue choice_of_wall_clock(E RunCase::*member) {
  SettingValue value = choice(member);
  value.read = [read = value.read](CaseReading& r, const std::string& key) {
    if (on_wall(r) || !r.entry.has(key) || r.entry.raw(key) != choice_name(E::none)) read(r, key);
  };
  return value;
}

// Every device of the cluster.
void fill_ranks(CaseReading& r);
// The cluster can be read and has a device for every rank.
void check_cluster(CaseReading& r);
void check_pipelines(CaseReading& r);
inline constexpr const char* kReducedAtTheEnd = "end";
// "25MB", or kReducedAtTheEnd: 0 bytes.
void read_gradient_buckets(CaseReading& r, const std::string& key);
Json gradient_buckets_json(const RunCase& c);
// Whether a stage may be on several ranks, which reduce its gradients.
bool may_have_replicas(const RunCase& c, const System& system);
// "7,15,22": ascending.
void read_stages(CaseReading& r, const std::string& key);
Json stages_json(const RunCase& c);  // null: not given
// Whether the case's model is cut, and not at given places.
bool has_cuts(const RunCase& c, const System& system);
void check_cuts(CaseReading& r);
// Whether a balanced cut of the case could avoid messages that have a cost.
bool cuts_may_count_messages(const RunCase& c, const System& system);
// Whether the system's planner has an objective of its own for cuts.
bool cuts_by_its_own_objective(const RunCase& c, const System& system);
// Whether it is a training by a system that updates without a flush and does not accumulate gradients. False with
// microbatch_sizes, which such a system rejects.
bool updates_after_every_micro_batch(const RunCase& c, const System& system);
// The degree divides the ranks, and the layers can be divided by it.
void check_tensor(CaseReading& r);
void check_experts(CaseReading& r);

// A list of samples.
void read_microbatch_sizes(CaseReading& r, const std::string& key);
Json microbatch_sizes_json(const RunCase& c);  // null: not given
// The sum of microbatch_sizes, if given. Else the workload's; for a published profile, the requested number of its
// micro-batches. For an asynchronous system that does not accumulate gradients, one of them is the batch.
void fill_batch(CaseReading& r);
void check_batch(CaseReading& r);
// The number of microbatch_sizes, if given. A single process takes the batch whole, unless that would not fit
// (full-size models) or microbatches is given: otherwise the ratios of other systems to it would be too high.
void fill_microbatches(CaseReading& r);
void check_microbatches(CaseReading& r);
void check_length(CaseReading& r);
// Full-size workloads, and runs on the virtual clock only (precision_rules.h), never train.
void fill_train(CaseReading& r);
void check_train(CaseReading& r);

void check_pin(CaseReading& r);
void check_interference(CaseReading& r);
void check_interference_by(CaseReading& r);
void check_slowdown(CaseReading& r);
void check_throttle(CaseReading& r);

void fill_optimizer(CaseReading& r);
void read_optimizer_setting(CaseReading& r, const std::string& key);
// Inference has no optimizer and keeps the workload's. Without a training, only the members that determine the size of
// its state have an effect. The others stay part of the case, because the first records' digests include them;
// untrained_optimizer_json() leaves them out.
void canonicalize_optimizer(RunCase& c, const System& system);
Json untrained_optimizer_json(const RunCase& c);
void check_clip_norm(CaseReading& r);
void check_purpose(CaseReading& r);
void read_tune_setting(CaseReading& r, const std::string& key);
void check_leftover(CaseReading& r);

void read_failure(CaseReading& r, const std::string& key);
// Whether the case trains on the failing rank. A failure after the last update is rejected if the case trains.
bool failure_happens(const RunCase& c);
Json failure_json(const RunCase& c);  // null: no failure is injected

}  // namespace sluice::setting
