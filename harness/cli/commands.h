// The commands of `sluice`, one file each. command_line.cpp makes their arguments from the command line. Each returns
// the exit code and throws InputError or RunError.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/case_flags.h"
#include "harness/cli/given_options.h"

namespace sluice {

struct ListArguments {
  std::string what;  // systems, workloads, clusters, sweeps, a name of one of them, or "" for all
  bool json = false;
};
int list_command(const ListArguments& a);

struct PlanArguments {
  CaseFlags flags;
  std::string trace, html;  // files; empty: none
  bool json = false, csv = false;
  std::string torchtitan;
};
int plan_command(const PlanArguments& a);

struct AdviseArguments {
  CaseFlags flags;                                 // without the varied settings
  std::string system = "*", microbatches, tensor;  // to try; "": by the workload and the ranks
  std::string memory, csv, trace, html, torchtitan;
  double seconds = 30;
  bool same_plan = false, json = false;
};
int advise_command(const AdviseArguments& a);

struct ScheduleArguments {
  std::string workload, cluster;  // of `from` on a model's costs; empty: none, as many equal devices as it has ranks
  std::string system, from, costs = "1/1/1", costs_of, trace, html;
  std::string microbatch_sizes;                      // list; empty: all have one
  std::string sample_lengths;                        // list, from which a system forms the micro-batches; empty: none
  std::int64_t group_overhead = 0, group_limit = 0;  // of those, in units of length; limit 0: none
  double host_copy = 0;
  int ranks = 4, microbatches = 8;
  std::optional<int> chunks;  // not given: the system's own
  std::vector<std::string> set;
  bool json = false, text = false, versions = false, csv = false, messages = false;
};
int schedule_command(const ScheduleArguments& a);

struct TraceArguments {
  std::vector<std::string> files;
  std::string forward, backward, input_gradient, weight_gradient;  // patterns; all empty: PyTorch's names
  std::string system;                                              // of the other orders; "": a selection
  std::string out;                                                 // costs; "": none
  std::vector<std::string> set;
  bool json = false;
};
int trace_command(const TraceArguments& a);

struct VerifyArguments {
  std::string cases;
  double tolerance = 1e-9;
  std::vector<std::string> only;
  bool json = false;
};
int verify_command(const VerifyArguments& a);

struct ProfileArguments {
  CaseFlags flags;
  std::string out;
  std::optional<int> neighbours;  // busy ranks; none: one on every other core
  bool co_run = false;            // measures slowdowns under loads instead of costs
  double seconds = 1;             // of each load
  std::string published;          // file of further slowdowns for the forest; "": none
};
int profile_command(const ProfileArguments& a);

struct ValidateArguments {
  std::vector<std::string> records;  // given: compares these and runs nothing
  std::string out, filter, chart, device = "cpu", progress = "auto";
  int rounds = 4;
  std::optional<int> ranks;  // none: the number of cores or GPUs
  double seconds = 0.25;
  bool quick = false, threads_only = false, list = false, json = false, check = false;
};
int validate_command(const ValidateArguments& a);

struct RunArguments {
  std::string sweep;  // a file, or the name of one in harness/sweeps
  CaseFlags flags;    // of a single case
  std::string out, shard, progress = "auto", inject_failure, checkpoints, trace, html, timelines;
  int jobs = 0;  // 0: one per core
  bool resume = false, again = false, dry_run = false, json = false;
};
int run_command(const RunArguments& a);

struct CompareArguments {
  std::vector<std::string> files, filter, columns;
  std::string baseline, metric = "throughput", sort, format = "text", against, tolerance = "1%";
  std::vector<std::string> pivot;  // settings of its rows and columns; empty: none
  std::string best = "none", caption, label;
  bool json = false;
};
int compare_command(const CompareArguments& a);

struct ReportArguments {
  std::vector<std::string> files, filter;
  std::string out, title;
  std::string formats = "svg";  // of the charts' files
  bool claims = false;          // with published figures, from results/claims
  bool markdown = false;        // files: descriptions of studies, and records to replace the reference records of one
};
int report_command(const ReportArguments& a);

struct LeaderboardArguments {
  std::vector<std::string> files;  // of the standard sweep; none: the stored records
  std::string board;               // description; "": results/leaderboard.json
  std::string add;                 // a system that the sweep runs first; "": none
  std::string out, html, progress = "auto";
  bool train = false, wall = false, resume = false, write = false;
};
int leaderboard_command(const LeaderboardArguments& a);

struct FigureArguments {
  std::string kind;                // of kFigureKinds (plots/figure.h)
  std::vector<std::string> files;  // of records
  std::vector<std::string> filter, systems, names;
  std::string width = "3.3in", height, title = "none", order = "name", format = "pdf", out;
  double font_size = 8;
};
int figure_command(const FigureArguments& a);

struct ReproduceArguments {
  std::vector<std::string> papers;  // of results/claims
  bool all = false, json = false, write = false, mutate = false;
  std::string claims;  // another folder of claims
};
int reproduce_command(const ReproduceArguments& a);

struct ExportArguments {
  std::vector<std::string> files, filter;
  std::string format = "csv";
  bool curves = false, ranks = false;
  // For the format chakra, which exports a plan instead of records: the plan, and the prefix of its files.
  CaseFlags plan;
  std::string out;
};
int export_command(const ExportArguments& a);

struct NewArguments {
  std::string what, name, kind;  // kind: of a baseline or workload; "": the first kind
  std::string like;              // a listed workload, copied into a workload's file; "": none
  std::string folder;            // "": folder_of_new()
};
int new_command(const NewArguments& a);

struct CheckArguments {
  std::string systems;
  double seconds = 10;  // per problem
};
int check_command(const CheckArguments& a);

struct CompletionArguments {
  std::string shell;
};
int completion_command(const CompletionArguments& a);

// The sweeps of harness/sweeps, in order.
std::vector<std::string> sweep_names();

}  // namespace sluice
