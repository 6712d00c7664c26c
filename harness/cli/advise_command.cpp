#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/output_file.h"
#include "harness/base/visible_text.h"
#include "harness/case/setting_rules.h"
#include "harness/cli/advise.h"
#include "harness/cli/advise_costs.h"
#include "harness/cli/assumptions.h"
#include "harness/cli/chrome_trace.h"
#include "harness/cli/commands.h"
#include "harness/cli/timeline_page.h"
#include "harness/cli/torchtitan.h"
#include "results/comparison_rows.h"
#include "results/model_error.h"

namespace sluice {

namespace {

std::string name_of(const Candidate& c) { return title_of(c.system->name, options_text(c)); }

// Per update.
int microbatches_of(const Candidate& c) {
  return c.kind() == AdviceKind::after_every_micro_batch ? 1 : c.count("microbatches");
}

// "tie: its plan is data parallelism".
std::string remark_of(const Candidate& c, const Candidate& fastest) {
  if (!c.fits()) return c.rejected;
  const std::string why = &c == &fastest ? "" : why_slower(c, fastest), kind = plan_kind(c);
  return why + (why.empty() || kind.empty() ? "" : ": ") + kind;
}

std::string counted(int count, const char* what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

const Candidate& fastest_of(const std::vector<AdviceRow>& rows) {
  return *std::ranges::max_element(rows, {}, [](const AdviceRow& row) { return row.best->samples_per_second; })->best;
}

// unit: the candidate to which ratios are.
void print_rows(const std::vector<AdviceRow>& rows, const Candidate& unit) {
  const bool asynchronous = !rows.front().best->system->synchronous;
  std::size_t wide = 6;
  for (const AdviceRow& row : rows) wide = std::max(wide, name_of(*row.best).size());
  const RateColumns columns(rows.front().best->rates);
  fmt::print("{:>5}  {:<{}}  {:>12} {:>4} {:>3} {:>9} {:>10}{} {:>6} {:>9} {:>7} {:>8}  {}\n", "place", "system", wide,
             "micro-batch", "d", "t", "step", "samples/s", columns.heading(), "ratio", "peak/rank", "bubble",
             "messages", asynchronous ? "stale by, versions; why it is slower" : "why it is slower");
  const Candidate& fastest = fastest_of(rows);
  for (const AdviceRow& row : rows) {
    const Candidate& c = *row.best;
    std::string remark = remark_of(c, fastest);
    if (asynchronous)
      remark = fmt::format("{}, {}{}{}", counted(c.staleness, "update"), counted(c.versions, "version"),
                           remark.empty() ? "" : "; ", remark);
    fmt::print("{:>5}  {:<{}}  {:>12} {:>4} {:>3} {:>9} {:>10.4g}{} {:>5.2f}x {:>9} {:>6.1f}% {:>7.1f}%  {}\n",
               row.place_text(), name_of(c), wide, fmt::format("{} x {}", microbatches_of(c), c.micro_batch),
               c.count("data_parallel"), c.count("tensor"), to_text(Seconds(c.update_seconds)), c.samples_per_second,
               columns.cells(c.rates), c.samples_per_second / unit.samples_per_second, to_text(c.peak), 100 * c.bubble,
               100 * c.split.messages / c.split.update(), remark);
  }
}

// Of the best of each system. shown: the winner's plan.
std::vector<Assumption> all_assumptions(const std::vector<AdviceRow>& rows, const EvaluatedPlan& shown) {
  std::vector<Assumption> all = {{"overlap", "no plan has replicas, whose gradients would be reduced"}};
  std::vector<std::string> recomputing;
  for (const AdviceRow& row : rows) {
    if (row.best->replicated) all.front() = overlap_of(row.best->gradient_buckets);
    if (row.best->recomputes) recomputing.push_back(name_of(*row.best));
  }
  for (const Assumption& a : assumptions_of(shown)) all.push_back(a);
  all.push_back({"recomputation", recomputing.empty() ? "none: all activations are kept"
                                                      : fmt::format("of activations by {}; others keep them",
                                                                    fmt::join(recomputing, ", "))});
  return all;
}

// rows: those of its kind, synchronous or not.
Json document_of(const Candidate& c, const std::vector<AdviceRow>& rows) {
  const auto row = std::ranges::find(rows, &c, &AdviceRow::best);
  return {{"place", row == rows.end() ? Json(nullptr) : Json(row->place)},  // of the best of each system
          {"system", c.system->name},
          {"options", c.entry.values.value("options", std::map<std::string, std::string>())},
          {"synchronous", c.system->synchronous},
          {"update", c.kind() == AdviceKind::after_every_micro_batch ? "micro_batch" : "batch"},
          {"microbatches", microbatches_of(c)},
          {"micro_batch", c.micro_batch},
          {"data_parallel", c.count("data_parallel")},
          {"tensor", c.count("tensor")},
          {"ranks_used", c.ranks_used},
          {"samples_per_second", c.samples_per_second},
          {"update_seconds", c.update_seconds},
          {"tokens_per_second", c.rates ? Json(c.rates->tokens_per_second) : Json()},
          {"tflops_per_device", c.rates ? Json(c.rates->tflops_per_device) : Json()},
          {"mfu", c.rates ? Json(c.rates->mfu) : Json()},
          {"peak_bytes", c.peak.value},
          {"bubble_ratio", c.bubble},
          {"staleness", c.staleness},
          {"weight_versions", c.versions},
          {"seconds",
           {{"computing", c.split.computing},
            {"idle_devices", c.split.idle},
            {"uneven_ranks", c.split.uneven},
            {"waiting", c.split.waiting},
            {"messages", c.split.messages}}},
          {"rejected", c.fits() ? Json(nullptr) : Json(c.rejected)},
          {"why", rows.empty() ? c.rejected : remark_of(c, fastest_of(rows))},
          {"plan", plan_line(c)},
          {"run", run_line(c)}};
}

// A line for each system without a candidate that fits: how much memory the one that lacks least of it needs, or why
// it has no plan.
void print_rejected(const Advice& advice) {
  std::map<std::string, const Candidate*> nearest;
  const auto lacks = [](const Candidate& c) { return c.needed - c.available; };  // above 0: it is too large
  for (const Candidate& c : advice.candidates) {
    const Candidate*& best = nearest.try_emplace(c.system->name, &c).first->second;
    if (!c.fits() && best->fits()) continue;
    if (c.fits() || (lacks(c) > Bytes(0) && (lacks(*best) <= Bytes(0) || lacks(c) < lacks(*best)))) best = &c;
  }
  for (const auto& [name, c] : nearest) {
    if (c->fits()) continue;
    if (lacks(*c) > Bytes(0)) {
      fmt::print("does not fit: {} needs at least {} on a device that has {}\n", name, to_text(c->needed),
                 to_text(c->available));
    } else {
      fmt::print("no plan: {}{}\n", c->rejected.starts_with(name + ": ") ? "" : name + ": ", visible(c->rejected));
    }
  }
}

// What is under the tables.
void print_notes(const Advice& advice, const std::vector<AdviceRow>& rows, double seconds,
                 const std::vector<Assumption>& assumptions) {
  if (std::ranges::any_of(rows, &AdviceRow::shared))
    fmt::print("places shared within {}\n", model_error_text(model_error(rows.front().best->cost_source)));
  fmt::print(
      "{} candidates; d: data-parallel pipelines; t: tensor-parallel degree; in brackets, the same of the "
      "fastest row\n\n",
      advice.candidates.size());
  for (const Assumption& a : assumptions) fmt::print("{:<14} {}\n", a.about + ":", a.text);
  fmt::print("\n");
  print_rejected(advice);
  fmt::print("{}", out_of_time(advice, seconds));
}

// The table of one of a plan's pipelines, whose replicas are PyTorch's data parallelism: of the best row that has one.
std::string table_of_best(const std::vector<AdviceRow>& rows, ProfileStore& profiles) {
  std::string reason;
  for (const AdviceRow& row : rows) {
    const Entry& entry = row.best->entry;
    try {
      const EvaluatedPlan whole = evaluate_plan(resolve(entry), profiles);
      std::string table = plan_table(evaluate_plan(resolve(one_pipeline(entry, whole)), profiles));
      if (!reason.empty()) fmt::print(stderr, "note: {}; the table is that of {}\n", reason, name_of(*row.best));
      return table;
    } catch (const InputError& error) {
      if (reason.empty()) reason = error.what();
    }
  }
  throw InputError("--csv", reason, "leave --csv out");
}

}  // namespace

int advise_command(const AdviseArguments& a) {
  reject_same_output({a.trace, a.html, a.csv, a.torchtitan});
  std::optional<OutputFile> trace, page;
  if (!a.trace.empty()) trace = chrome_trace_file(a.trace);
  if (!a.html.empty()) page = timeline_page_file(a.html);
  std::optional<OutputFile> csv;
  std::optional<TorchtitanFiles> torchtitan;
  if (!a.csv.empty()) csv.emplace(table_output(a.csv));
  if (!a.torchtitan.empty()) torchtitan.emplace(a.torchtitan);
  AdviceRequest request{entry_of(a.flags, timed_only()),
                        counts_in(a.microbatches, "--microbatches"),
                        counts_in(a.tensor, "--tensor"),
                        systems_named(a.system),
                        a.same_plan,
                        a.seconds};
  const auto infers = std::ranges::find_if(request.systems, &System::inference_only);
  if (infers != request.systems.end())
    throw InputError("--system", "'" + (*infers)->name + "' only infers, and advice is for training",
                     "sluice plan shows its pipeline");
  if (!(a.seconds > 0)) throw InputError("--seconds", "must be greater than 0");
  if (!a.memory.empty()) {
    if (parse_bytes(a.memory, "--memory").value <= 0)
      throw InputError("--memory", "must be greater than 0, is '" + a.memory + "'", "write 80GiB");
    Json& values = request.entry.values;
    values["cluster"] =
        setting::without_key(values.value("cluster", RunCase{}.cluster), "memory") + ",memory=" + a.memory;
  }
  const AdviceCosts costs = with_default_costs(request.entry);
  request.entry = costs.entry;
  ProfileStore profiles(default_profile_folder());
  const Advice advice = advise(request, profiles);
  const std::vector<AdviceRow> tables[] = {rows_of(advice, AdviceKind::synchronous),
                                           rows_of(advice, AdviceKind::after_the_batch),
                                           rows_of(advice, AdviceKind::after_every_micro_batch)};
  const auto filled = std::ranges::find_if(tables, [](const auto& rows) { return !rows.empty(); });
  const std::vector<AdviceRow>& first = filled == std::end(tables) ? tables[0] : *filled;
  const Candidate* winner = first.empty() ? nullptr : first.front().best;
  if (!winner && !a.json) {
    if (advice.candidates.empty()) throw InputError("--seconds", "nothing was searched in that time", "give more");
    print_rejected(advice);
    fmt::print("{}", out_of_time(advice, a.seconds));
    if (std::ranges::none_of(advice.candidates, [](const Candidate& c) { return c.needed > c.available; }))
      throw InputError("advise", "no system has a plan", "the lines above say why");
    throw InputError("advise", "no system has a plan that fits", "give more memory, ranks or micro-batches");
  }
  std::vector<AdviceRow> rows;
  for (const auto& table : tables) rows.insert(rows.end(), table.begin(), table.end());
  std::optional<EvaluatedPlan> shown;
  if (winner) shown = evaluate_plan(resolve(winner->entry), profiles);
  if (trace && shown) trace->write(trace_text(*shown));
  if (page && shown) page->write(page_text(*shown));
  std::vector<Assumption> assumptions = shown ? all_assumptions(rows, *shown) : std::vector<Assumption>();
  if (!advice.plan.empty()) assumptions.insert(assumptions.begin(), {"plan", advice.plan});
  const auto write_files = [&] {
    if (csv) csv->write(table_of_best(first, profiles));
    if (torchtitan) torchtitan->write(winner->entry, *shown, profiles);
  };
  if (a.json) {
    Json chosen = winner ? document_of(*winner, first) : Json(nullptr);
    if (const auto names = shown ? description(*shown).module_names : std::nullopt)
      chosen["module_fqns_per_model_part"] = *names;
    if (shown) print_modules_left_out(*shown);
    Json all = Json::array(), assumed = Json::object();
    for (const Candidate& c : advice.candidates)
      all.push_back(document_of(c, tables[static_cast<std::size_t>(c.kind())]));
    for (const Assumption& assumption : assumptions) assumed[assumption.about] = assumption.text;
    if (winner) write_files();  // an error leaves no document
    fmt::print("{}\n", Json{{"candidates", all},
                            {"winner", chosen},
                            {"model_error", winner ? Json(model_error(winner->cost_source)) : Json(nullptr)},
                            {"costs", shown ? cost_document(costs, *shown) : Json(nullptr)},
                            {"assumptions", assumed},
                            {"untried", advice.untried},
                            {"searched_in_part", advice.searched_in_part}}
                           .dump(2));
    return winner ? 0 : 1;
  }
  for (const std::string& line : cost_lines(costs, *shown)) fmt::print("{}\n", line);
  fmt::print("\n");
  static constexpr const char* headings[] = {
      "",
      "\nAsynchronous systems that update after the whole batch. They compute gradients with stale weights, which "
      "costs "
      "accuracy that\nno throughput shows: results/findings/staleness.md, and sluice run staleness measures it.\n",
      "\nAsynchronous systems that update after every micro-batch, as in the papers: other updates, of fewer "
      "samples.\n"};
  for (std::size_t k = 0; k < std::size(tables); ++k) {
    if (tables[k].empty()) continue;
    fmt::print("{}", headings[k]);
    print_rows(tables[k], fastest_of(first));
  }
  fmt::print("\n");
  print_notes(advice, rows, a.seconds, assumptions);
  const std::string shared = shared_first_place(first);
  if (!shared.empty()) fmt::print("{}\n", shared);
  fmt::print("\n");
  print_plan(*shown);
  fmt::print("\n{}\n{}\n", plan_line(*winner), run_line(*winner));
  write_files();
  if (csv) fmt::print("PyTorch's table: {}\n", visible(a.csv));
  return 0;
}

}  // namespace sluice
