#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "harness/case/settings.h"
#include "harness/cli/chrome_trace.h"
#include "harness/cli/commands.h"
#include "harness/cli/evaluated_plan.h"
#include "harness/cli/timeline_page.h"
#include "harness/cli/torchtitan.h"
#include "results/comparison_rows.h"

namespace sluice {

// A line for each of several systems, the fastest first; those without a plan below, with the reason.
static int compare_plans(const std::vector<Entry>& entries, ProfileStore& profiles, bool json) {
  std::vector<EvaluatedPlan> plans;
  std::vector<std::string> rejected;
  for (const Entry& entry : entries) {
    try {
      plans.push_back(fitting_plan(resolve(entry), profiles));
    } catch (const InputError& e) {
      rejected.push_back(entry.values["system"].get<std::string>() + ": " + e.what());
    }
  }
  std::ranges::stable_sort(plans, std::greater(), &EvaluatedPlan::samples_per_second);
  if (json) {
    Json documents = Json::array();
    for (const EvaluatedPlan& e : plans) documents.push_back(to_json(description(e)));
    fmt::print("{}\n", documents.dump(2));
  } else {
    const RateColumns columns(plans.empty() ? std::nullopt : plans.front().rates());
    std::size_t wide = 6;
    for (const EvaluatedPlan& e : plans) wide = std::max(wide, title_of(e.c.system, "").size());
    fmt::print("{:<{}} {:>6} {:>5} {:>10} {:>11}{} {:>7} {:>9} {:>10}\n", "system", wide, "stages", "ranks", "update",
               "samples/s", columns.heading(), "bubble", "peak/rank", "search");
    for (const EvaluatedPlan& e : plans)
      fmt::print("{:<{}} {:>6} {:>5} {:>10} {:>11.4g}{} {:>6.1f}% {:>9} {:>10}\n", title_of(e.c.system, ""), wide,
                 e.p.plan.stages.size() / static_cast<std::size_t>(group_size(e.p)), devices_of(e.p.plan),
                 to_text(Seconds(e.update_seconds)), e.samples_per_second(), columns.cells(e.rates()),
                 100 * e.simulation.bubble.bubble_ratio, to_text(e.peak()), to_text(Seconds(e.p.plan.search.seconds)));
  }
  for (const std::string& reason : rejected) fmt::print(json ? stderr : stdout, "no plan: {}\n", visible(reason));
  if (plans.empty()) throw InputError("plan", "none of the systems has a plan");
  return 0;
}

int plan_command(const PlanArguments& a) {
  reject_same_output({a.trace, a.html});
  std::optional<OutputFile> trace, page;
  if (!a.trace.empty()) trace = chrome_trace_file(a.trace);
  if (!a.html.empty()) page = timeline_page_file(a.html);
  const std::vector<Entry> entries = entries_of(a.flags, timed_only());
  Entry any = entries.front();
  any.values.erase("options");
  print_warnings_of_profile(resolve(any));  // what is wrong with the flags is said once
  ProfileStore profiles(default_profile_folder());
  if (entries.size() > 1) {
    for (const auto& [flag, given] :
         {std::pair("--csv", a.csv), std::pair("--trace", trace.has_value()), std::pair("--html", page.has_value()),
          std::pair("--torchtitan", !a.torchtitan.empty())})
      if (given) throw InputError(flag, "is of one plan", "give one system");
    return compare_plans(entries, profiles, a.json);
  }
  std::optional<TorchtitanFiles> torchtitan;
  if (!a.torchtitan.empty()) torchtitan.emplace(a.torchtitan);
  const EvaluatedPlan e = fitting_plan(cases_of(entries).front(), profiles);
  if (trace) trace->write(trace_text(e));
  if (page) page->write(page_text(e));
  if (torchtitan) torchtitan->write(entries.front(), e, profiles);
  if (a.csv) {
    fmt::print("{}", plan_table(e));
  } else if (a.json) {
    Json document = to_json(description(e));
    if (const std::string layout = layout_of(e); !layout.empty()) document["layout"] = layout;
    fmt::print("{}\n", document.dump(2));
    print_modules_left_out(e);
  } else {
    print_plan(e);
  }
  return 0;
}

}  // namespace sluice
