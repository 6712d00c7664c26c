// The commands of `sluice`, one file each. command_line.cpp makes their arguments of the command line's. Each returns
// the exit code and throws InputError or RunError.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct ListArguments {
  std::string what;  // systems, workloads, clusters, sweeps, or "" for all
  bool json = false;
};
int list_command(const ListArguments& a);

struct PlanArguments {
  std::string system, workload, cluster = "flat:4", costs = "analytic";
  int devices = 0;  // 0: all of the cluster's
  long batch = 0, micro_batch = 0;
  std::vector<std::string> set;
  bool json = false;
};
int plan_command(const PlanArguments& a);

struct ScheduleArguments {
  std::string system, costs = "1/1/1", trace;
  int ranks = 4, microbatches = 8;
  std::optional<int> chunks;  // not given: the system's own
  std::vector<std::string> set;
  bool json = false, text = false;
};
int schedule_command(const ScheduleArguments& a);

struct VerifyArguments {
  std::string cases;
  double tolerance = 1e-9;
  std::vector<std::string> only;
  bool json = false;
};
int verify_command(const VerifyArguments& a);

struct ProfileArguments {
  std::string workload, device = "cpu", out;
  long micro_batch = 0;
};
int profile_command(const ProfileArguments& a);

struct RunArguments {
  std::string sweep;                          // a file, or the name of one in harness/sweeps
  std::map<std::string, std::string> single;  // the settings of a single case (case/settings.h), by their JSON key
  std::vector<std::string> set;
  std::string out, shard, progress = "auto", inject_failure, checkpoints;
  bool resume = false, dry_run = false, json = false;
};
int run_command(const RunArguments& a);

struct CompareArguments {
  std::vector<std::string> files;
  std::string baseline, metric = "throughput";
  bool json = false;
};
int compare_command(const CompareArguments& a);

struct ReportArguments {
  std::vector<std::string> files;
  std::string out;
  bool markdown = false;  // files: descriptions of studies, and records to replace the reference records of one
};
int report_command(const ReportArguments& a);

struct ExportArguments {
  std::vector<std::string> files;
  std::string format = "csv";
  bool curves = false;
};
int export_command(const ExportArguments& a);

struct NewArguments {
  std::string what, name;
};
int new_command(const NewArguments& a);

// The "key=value" texts of --set as a map. Throws InputError for a text without '='.
std::map<std::string, std::string> given_options(const std::vector<std::string>& set);

}  // namespace sluice
