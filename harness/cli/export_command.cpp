#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/output_file.h"
#include "harness/base/visible_text.h"
#include "harness/case/predict_update.h"
#include "harness/case/settings.h"
#include "harness/cli/chakra_trace.h"
#include "harness/cli/commands.h"
#include "harness/cli/evaluated_plan.h"
#include "harness/cli/read_files.h"
#include "results/export.h"
#include "results/record_filter.h"

namespace sluice {

static OutputFile trace_file(const std::string& name) {
  const auto is_trace = [](const std::string& text) { return text.starts_with(chakra_file({})); };
  return {name, "a trace of sluice export", is_trace};
}

static OutputFile groups_file(const std::string& name) {
  const auto is_groups = [](const std::string& text) {
    const Json json = Json::parse_if_json(text).value_or(Json());
    return json.is_object() &&
           std::ranges::all_of(json.items(), [](const auto& group) { return group.second.is_array(); });
  };
  return {name, "groups of sluice export", is_groups};
}

static std::string trace_name(const std::string& prefix, std::size_t rank) {
  return prefix + "." + std::to_string(rank) + ".et";
}

// Files of an earlier export of a plan with more ranks, or with groups, which would be read as parts of this one.
static std::vector<std::string> left_by_larger(const std::string& prefix, std::size_t ranks, bool has_groups) {
  std::vector<std::string> names;
  std::error_code none;
  for (std::size_t r = ranks; std::filesystem::exists(trace_name(prefix, r), none); ++r) {
    trace_file(trace_name(prefix, r));
    names.push_back(trace_name(prefix, r));
  }
  if (const std::string groups = prefix + ".groups.json"; !has_groups && std::filesystem::exists(groups, none)) {
    groups_file(groups);
    names.push_back(groups);
  }
  return names;
}

// The order of a plan's ops with its costs: a file a rank, and the groups that meet in collectives.
static int export_chakra(const ExportArguments& a) {
  if (!a.files.empty())
    throw InputError("export", "--format chakra is of a plan, not of records", "leave '" + a.files.front() + "' out");
  if (!a.filter.empty() || a.curves || a.ranks)
    throw InputError(!a.filter.empty() ? "--filter"
                     : a.curves        ? "--curves"
                                       : "--per-rank",
                     "goes with records, not with --format chakra");
  const auto missing = [](const char* flag, const char* what) {
    throw InputError("export", std::string("--format chakra needs ") + flag, what);
  };
  if (!a.plan.values.contains("system")) missing("--system", "name the system whose plan to export");
  if (!a.plan.values.contains("workload")) missing("--workload", "name a workload, or a file of a model or of costs");
  if (a.out.empty()) missing("--out", "say how the names of the files begin: PREFIX.0.et, PREFIX.1.et, ...");
  const std::vector<Entry> entries = entries_of(a.plan, timed_only());
  if (entries.size() > 1) throw InputError("--system", "--format chakra is of one plan", "give one system");
  const RunCase planned = cases_of(entries).front();
  print_warnings_of_profile(planned);
  trace_file(trace_name(a.out, 0));  // before a long search
  ProfileStore profiles(default_profile_folder());
  const EvaluatedPlan e = fitting_plan(planned, profiles);
  const auto ranks = chakra_nodes(e.program, costs_of(e.p));
  const std::string groups = chakra_groups(e.program);
  std::vector<OutputFile> files;  // all are checked before the first is written
  for (std::size_t r = 0; r < ranks.size(); ++r) files.push_back(trace_file(trace_name(a.out, r)));
  const std::vector<std::string> stale = left_by_larger(a.out, ranks.size(), !groups.empty());
  if (!groups.empty()) groups_file(a.out + ".groups.json").write(groups);
  for (std::size_t r = 0; r < ranks.size(); ++r) files[r].write(chakra_file(ranks[r]));
  for (const std::string& name : stale) std::filesystem::remove(name);
  const std::string out = visible(a.out);
  fmt::print("{}.0.et{}{}\n", out, ranks.size() > 1 ? fmt::format(" to {}.{}.et", out, ranks.size() - 1) : "",
             groups.empty() ? "" : fmt::format(", and {}.groups.json", out));
  return 0;
}

int export_command(const ExportArguments& a) {
  if (a.format == "chakra") return export_chakra(a);
  const std::vector<std::string> formats = {"csv", "jsonl", "chakra"};
  if (std::ranges::count(formats, a.format) == 0)
    throw InputError("--format", "unknown format '" + a.format + "'", suggestion(a.format, formats));
  const std::string of_plan = !a.plan.values.empty() ? place_of_flag("/" + a.plan.values.begin()->first)
                              : !a.plan.set.empty()  ? "--set"
                              : !a.out.empty()       ? "--out"
                                                     : "";
  if (!of_plan.empty())
    throw InputError(of_plan, "goes with --format chakra",
                     "records are chosen by --filter, and the table is on stdout");
  if (a.files.empty()) throw InputError("export", "there is no file of records", "name one, or give --format chakra");
  if (a.curves && a.ranks)
    throw InputError("--per-rank", "goes with the runs, not with their curves", "give one of them");
  const auto table_of = [&](const std::vector<Record>& records) {
    return a.curves ? curves_table(records) : a.ranks ? ranks_table(records) : records_table(records);
  };
  const FlatTable table = table_of(filtered(read_files(a.files, RecordUse::figures), a.filter));
  fmt::print("{}", a.format == "csv" ? to_csv(table) : to_json_lines(table));
  return 0;
}

}  // namespace sluice
