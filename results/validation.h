// Accuracy of the virtual clock against the wall clock: records of the same cases on both, round by round, their errors
// by group, and whether the order of cases is kept.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/record.h"

namespace sluice {

// One case on both clocks.
struct ValidatedCase {
  std::string label;  // "1f1b mlp1024, 8 micro-batches of 32"
  std::string system, workload, transport;
  std::int64_t micro_batch = 0;  // samples
  int microbatches = 0;
  // Seconds per update: the lower quartile over the rounds of each round's median, because disturbances only make a
  // machine slower.
  double wall = 0, simulated = 0;
  std::vector<double> wall_rounds;  // seconds, per round
  double round_spread = 0;          // of the wall clock's rounds: (largest - smallest) / `wall`
  double error() const { return simulated / wall - 1; }
  std::vector<double> single_errors;  // per round: its prediction / its seconds - 1
  std::vector<double> round_errors;   // per round: its seconds / the others' lower quartile - 1; empty with one round
  struct Halves {
    double odd = 0, even = 0;  // seconds, as `wall`, of the odd and of the even rounds
  };
  std::optional<Halves> halves;       // with two or more rounds
  std::vector<double> memory_errors;  // per rank: predicted peak / measured - 1, of the last round
  std::string cause;                  // the largest cause of the error, from the timelines; "" if unknown
};

// The records of one case on each clock, in the order of the rounds. nullopt if a round failed.
std::optional<ValidatedCase> validated_case(const std::vector<const Record*>& wall,
                                            const std::vector<const Record*>& simulated);

// The cases in records. Records of `sluice validate` with the same environment["validation"] number belong together. Of
// any other sweep, runs on the wall clock and on the virtual clock of `this machine` that differ in the clock alone do,
// and their seeds count as rounds.
std::vector<ValidatedCase> validated_cases(std::span<const Record> records);

// "one_f_one_b mlp1024, 8 micro-batches of 32".
std::string validation_label(const std::string& system, const std::string& workload, std::int64_t microbatches,
                             std::int64_t micro_batch);

// Over absolute values.
struct ErrorSummary {
  std::size_t cases = 0;
  double median = 0, p90 = 0, largest = 0;
  double bias = 0;  // the median with its sign
};
ErrorSummary summary_of(const std::vector<double>& errors);

// Pairs of cases of the same workload and transport whose wall-clock times differ by more than 5 %.
struct OrderKept {
  std::size_t pairs = 0, kept = 0;
  std::size_t sure_pairs = 0, sure_kept = 0;  // those with the same order in all rounds of the wall clock
  // Pairs whose seconds differ by more than 5 % in the even rounds, and those of them that the odd rounds order alike:
  // how far the wall clock agrees with itself.
  std::size_t own_pairs = 0, own_kept = 0;
  double share() const { return share_of(kept, pairs); }
  double sure_share() const { return share_of(sure_kept, sure_pairs); }
  double own_share() const { return share_of(own_kept, own_pairs); }

 private:
  static double share_of(std::size_t part, std::size_t all) {
    return all == 0 ? 1 : static_cast<double>(part) / static_cast<double>(all);
  }
};

// Of the cases of one system, workload, size of the micro-batch or transport.
struct GroupErrors {
  ErrorSummary time, memory;
  OrderKept order;  // of the pairs with a case of the group
};

struct Validation {
  std::vector<ValidatedCase> cases;
  ErrorSummary time, memory;  // memory: of every rank
  ErrorSummary single;        // per round, as of one run and one profile
  // The wall clock against itself, which bounds the accuracy of any prediction.
  ErrorSummary rounds, halves;
  OrderKept order;
  std::map<std::string, GroupErrors> by_system, by_workload, by_micro_batch, by_transport;
};
Validation validate(std::vector<ValidatedCase> cases);

// Tables of errors by group, and each case beyond `limit` with its reason.
std::string to_table(const Validation& validation, double limit = 0.08);
// Why the clocks differ: the wall clock's own spread if it is larger than the error, else the cause.
std::string reason_of(const ValidatedCase& c);
Json to_json(const Validation& validation);

}  // namespace sluice
