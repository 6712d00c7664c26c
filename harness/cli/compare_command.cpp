#include <fmt/format.h>

#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "harness/pipeline/system.h"
#include "results/compare.h"
#include "results/compare_columns.h"
#include "results/pivot.h"
#include "results/record_filter.h"
#include "results/regression.h"
#include "results/stability.h"
#include "results/staleness_cost.h"

namespace sluice {

namespace {

enum class Form { text, markdown, latex, csv, json };

Form form_of(const CompareArguments& a) {
  static const std::vector<std::string> names = {"text", "markdown", "latex", "csv", "json"};
  if (a.json) return Form::json;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == a.format) return static_cast<Form>(i);
  throw InputError("--format", "unknown format '" + a.format + "'", suggestion(a.format, names));
}

TableForm table_form(Form form) {
  return form == Form::markdown ? TableForm::markdown : form == Form::latex ? TableForm::latex : TableForm::text;
}

std::string text_of(const TextTable& table, Form form) {
  return form == Form::markdown ? to_markdown(table) : form == Form::latex ? to_latex(table) : to_text(table);
}

// "2%" or "0.02". Throws InputError.
double tolerance_of(const std::string& text) {
  std::string_view unit = text;
  const std::optional<double> value = take_number(unit);
  const bool percent = unit == "%";
  if (!value || *value < 0 || (!percent && !unit.empty()))
    throw InputError("--tolerance", "'" + text + "' is no share", "write 2% or 0.02");
  const double share = percent ? *value / 100 : *value;
  if (share >= 1)
    throw InputError("--tolerance", fmt::format("'{}' would pass a run of twice the time", text), "write 2% or 0.02");
  return share;
}

// Exit code 1 where a run of the stored records is missing or has become worse.
int show_regressions(const CompareArguments& a, const std::vector<Record>& records, Form form) {
  const std::vector<Record> stored = filtered(read_files({a.against}, RecordUse::figures), a.filter);
  const std::vector<RegressionRow> rows = regressions(stored, records, tolerance_of(a.tolerance));
  if (form == Form::csv) {
    fmt::print("{}", to_csv(regression_flat_table(rows)));
  } else if (form == Form::json) {
    fmt::print("{}", to_json_lines(regression_flat_table(rows)));
  } else {
    const TextTable table = regression_table(rows, false);
    if (table.rows > 0) fmt::print("{}", text_of(table, form));
    fmt::print("{} figures compared, {} changed\n", rows.size(), table.rows);
  }
  return has_regression(rows) ? 1 : 0;
}

void show_pivot(const CompareArguments& a, const std::vector<Comparison>& comparisons, Form form) {
  const PivotOptions options{.rows = a.pivot[0],
                             .columns = a.pivot[1],
                             .metric = a.metric,
                             .caption = a.caption,
                             .label = a.label,
                             .bold = a.best == "bold"};
  const PivotTable table = pivot(comparisons, options);
  fmt::print("{}", form == Form::latex ? to_latex(table, options) : text_of(to_text_table(table), form));
}

// Throws InputError.
void check_pivot(const CompareArguments& a, Form form) {
  const std::string flag = a.best != "none"     ? "--best"
                           : !a.caption.empty() ? "--caption"
                           : !a.label.empty()   ? "--label"
                                                : "";
  if (a.pivot.empty() && !flag.empty()) throw InputError(flag, "needs --pivot", "add --pivot system,microbatches");
  if (a.pivot.empty()) return;
  if (a.pivot.size() != 2 || a.pivot[0] == a.pivot[1])
    throw InputError("--pivot", fmt::format("'{}' is not two settings", fmt::join(a.pivot, ",")),
                     "write ROWS,COLUMNS, as in system,microbatches");
  if (a.best != "bold" && a.best != "none")
    throw InputError("--best", "unknown mark '" + a.best + "'", "give bold or none");
  if (form != Form::latex && !flag.empty()) throw InputError(flag, "goes with --format latex");
  if (form == Form::csv || form == Form::json)
    throw InputError("--pivot", "goes with the formats text, markdown and latex");
  if (!a.against.empty() || !a.columns.empty() || a.metric == kStableRateMetric || a.metric == kStalenessCostMetric)
    throw InputError("--pivot", fmt::format("does not go with {}", !a.against.empty()   ? "--against"
                                                                   : !a.columns.empty() ? "--columns"
                                                                                        : "--metric " + a.metric));
}

}  // namespace

int compare_command(const CompareArguments& a) {
  CompareOptions options;
  const Form form = form_of(a);
  if (a.metric != kStableRateMetric && a.metric != kStalenessCostMetric)
    compare_metric(options.metric = a.metric);  // is known
  if (!a.baseline.empty()) options.baseline = find_system(a.baseline, "--baseline").name;
  options.columns = a.columns;
  check_compare_columns(a.columns, "--columns");
  options.sort = a.sort;
  if (!a.sort.empty()) check_compare_columns({a.sort.substr(a.sort.starts_with('-') ? 1 : 0)}, "--sort");
  check_pivot(a, form);
  std::vector<Record> records = filtered(read_files(a.files, RecordUse::figures), a.filter);
  if (!a.against.empty()) return show_regressions(a, records, form);
  if (a.metric == kStableRateMetric) {
    const std::vector<StableRates> boundaries = stable_rates(records);
    fmt::print("{}\n", form == Form::json ? to_json(boundaries).dump(2) : to_table(boundaries));
    return 0;
  }
  const bool boundaries = !stable_rates(records).empty();
  const std::vector<Comparison> comparisons = compare(std::move(records), options);
  if (a.metric == kStalenessCostMetric) {
    const std::vector<StalenessCosts> costs = staleness_costs(comparisons);
    fmt::print("{}\n", form == Form::json ? to_json(costs).dump(2) : to_table(costs));
    return 0;
  }
  if (!a.pivot.empty()) {
    show_pivot(a, comparisons, form);
    return 0;
  }
  if (form == Form::json) {
    fmt::print("{}\n", to_json(comparisons).dump(2));
  } else if (form == Form::csv) {
    fmt::print("{}", to_csv(to_flat_table(comparisons)));
  } else {
    fmt::print("{}\n", to_table(comparisons, options, table_form(form)));
    if (form == Form::text && boundaries)
      fmt::print("divergence boundaries are in these records: --metric {}\n", kStableRateMetric);
  }
  return 0;
}

}  // namespace sluice
