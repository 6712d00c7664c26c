#include "results/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <span>

#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/statistics.h"

namespace sluice {

namespace {

// Seconds by kind of op, of the rank that computes longest; "wait" is the rest of the timeline.
std::map<std::string, double> seconds_by_kind(const Record& record) {
  std::map<int, std::map<std::string, double>> ranks;
  double end = 0;
  for (const TimelineOp& op : record.timeline) {
    if (op.to) continue;  // a message overlaps the ops
    // "5I2" is I; "step", "reduce", "gather 5" name themselves.
    const auto letter = std::ranges::find_if(op.op, [](char c) { return c >= 'A' && c <= 'Z'; });
    const std::string kind = op.op.starts_with("(")  ? "overlapped pair"
                             : letter != op.op.end() ? std::string(1, *letter)
                                                     : op.op.substr(0, op.op.find(' '));
    ranks[op.rank][kind] += op.end - op.start;
    end = std::max(end, op.end);
  }
  std::map<std::string, double> most;
  double busiest = -1;
  for (const auto& [rank, kinds] : ranks) {
    double busy = 0;
    for (const auto& [kind, seconds] : kinds) busy += seconds;
    if (busy <= busiest) continue;
    busiest = busy;
    most = kinds;
    most["waiting"] = std::max(end - busy, 0.0);
  }
  return most;
}

std::string cause_of(const Record& wall, const Record& simulated) {
  const std::map<std::string, double> measured = seconds_by_kind(wall), predicted = seconds_by_kind(simulated);
  std::string kind;
  double largest = 0;
  for (const auto& [name, seconds] : measured) {
    const auto found = predicted.find(name);
    const double difference = seconds - (found == predicted.end() ? 0 : found->second);
    if (std::abs(difference) <= std::abs(largest)) continue;
    largest = difference;
    kind = name;
  }
  if (kind.empty()) return "";
  const auto found = predicted.find(kind);
  const double before = found == predicted.end() ? 0 : found->second;
  return fmt::format("{} of the busiest rank: {:.3g} ms measured, {:.3g} ms predicted", kind, 1e3 * measured.at(kind),
                     1e3 * before);
}

}  // namespace

// What disturbs a machine only makes it slower, and may last for a whole round: the lower quartile of the rounds.
static double undisturbed(std::span<const double> rounds) { return quantile(rounds, 0.25); }

// Nothing unless every round ended well.
static std::optional<std::vector<double>> seconds_of(const std::vector<const Record*>& rounds) {
  std::vector<double> result;
  for (const Record* round : rounds) {
    const std::optional<double> seconds = update_seconds(*round);
    if (!seconds) return std::nullopt;
    result.push_back(*seconds);
  }
  return result.empty() ? std::nullopt : std::optional(std::move(result));
}

std::optional<ValidatedCase> validated_case(const std::vector<const Record*>& wall_rounds,
                                            const std::vector<const Record*>& simulated_rounds) {
  const auto measured = seconds_of(wall_rounds), predicted = seconds_of(simulated_rounds);
  if (!measured || !predicted) return std::nullopt;
  const Record &wall = *wall_rounds.back(), &simulated = *simulated_rounds.back();
  ValidatedCase c;
  c.system = wall.system;
  c.workload = wall.workload;
  c.transport = wall.transport;
  c.microbatches = wall.microbatches;
  c.micro_batch = wall.microbatches > 0 ? wall.batch / wall.microbatches : wall.batch;
  c.wall = undisturbed(*measured);
  c.simulated = undisturbed(*predicted);
  c.wall_rounds = *measured;
  const auto [low, high] = std::ranges::minmax(*measured);
  c.round_spread = (high - low) / c.wall;
  const std::size_t rounds = measured->size();
  for (std::size_t k = 0; k < std::min(rounds, predicted->size()); ++k)
    c.single_errors.push_back((*predicted)[k] / (*measured)[k] - 1);
  std::vector<double> odd, even;
  for (std::size_t k = 0; rounds > 1 && k < rounds; ++k) {
    std::vector<double> others = *measured;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    c.round_errors.push_back((*measured)[k] / undisturbed(others) - 1);
    (k % 2 == 1 ? odd : even).push_back((*measured)[k]);
  }
  if (rounds > 1) c.halves = {.odd = undisturbed(odd), .even = undisturbed(even)};
  c.label = simulated.environment.validation ? simulated.environment.validation->label
                                             : validation_label(c.system, c.workload, c.microbatches, c.micro_batch) +
                                                   (c.transport == "mpi" ? ", processes" : "");
  c.cause = cause_of(wall, simulated);
  for (std::size_t r = 0; r < std::min(wall.peak_bytes.size(), wall.predicted_peak_bytes.size()); ++r)
    if (wall.peak_bytes[r].total > 0)
      c.memory_errors.push_back(
          static_cast<double>(wall.predicted_peak_bytes[r].total) / static_cast<double>(wall.peak_bytes[r].total) - 1);
  return c;
}

std::string validation_label(const std::string& system, const std::string& workload, std::int64_t microbatches,
                             std::int64_t micro_batch) {
  return fmt::format("{} {}, {} micro-batch{} of {}", system, workload, microbatches, microbatches == 1 ? "" : "es",
                     micro_batch);
}

// What the records of one case have in common on both clocks; "" for runs on the virtual clock of other clusters.
static std::string case_key(const Record& record) {
  if (record.environment.validation) return fmt::format("{:08}", record.environment.validation->number);
  // "this machine", "this machine, processes", "this machine, GPUs" (harness/case/case.h)
  if (!record.cluster.starts_with("this machine") || record.purpose != Purpose::measure) return "";
  const bool processes = record.transport == "mpi" || record.cluster.ends_with("processes");
  return fmt::format("{} {} {} {} {} {} {} {}", record.system, record.workload, record.ranks, record.batch,
                     record.microbatches, processes, record.tuning.has_value(), options_json(record).dump());
}

std::vector<ValidatedCase> validated_cases(std::span<const Record> records) {
  std::map<std::string, std::map<Clock, std::vector<const Record*>>> by_case;
  for (const Record& record : records)
    if (const std::string key = case_key(record); !key.empty()) by_case[key][record.clock].push_back(&record);
  std::vector<ValidatedCase> cases;
  for (auto& [key, rounds] : by_case)
    if (auto c = validated_case(rounds[Clock::wall], rounds[Clock::virtual_clock])) cases.push_back(std::move(*c));
  return cases;
}

ErrorSummary summary_of(const std::vector<double>& errors) {
  ErrorSummary summary;
  summary.cases = errors.size();
  if (errors.empty()) return summary;
  std::vector<double> absolute;
  for (const double e : errors) absolute.push_back(std::abs(e));
  summary.median = median(absolute);
  summary.p90 = quantile(absolute, 0.9);
  summary.largest = std::ranges::max(absolute);
  summary.bias = median(errors);
  return summary;
}

// Whether every round in which the wall clock ran both says that the same one is faster.
static bool rounds_agree(const ValidatedCase& a, const ValidatedCase& b) {
  const std::size_t rounds = std::min(a.wall_rounds.size(), b.wall_rounds.size());
  std::size_t faster = 0;
  for (std::size_t k = 0; k < rounds; ++k) faster += a.wall_rounds[k] < b.wall_rounds[k];
  return faster == 0 || faster == rounds;
}

// Whether pairs of such seconds count: a smaller difference is no order.
static bool differ_enough(double a, double b) { return std::abs(a - b) > 0.05 * std::min(a, b); }

// Whether a pair's order says something of a group of cases.
using Concerns = std::function<bool(const ValidatedCase&)>;

static OrderKept order_of(const std::vector<ValidatedCase>& cases, const Concerns& concerns) {
  OrderKept order;
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (std::size_t k = i + 1; k < cases.size(); ++k) {
      const ValidatedCase &a = cases[i], &b = cases[k];
      if (a.workload != b.workload || a.transport != b.transport || (!concerns(a) && !concerns(b))) continue;
      if (a.halves && b.halves && differ_enough(a.halves->even, b.halves->even)) {
        ++order.own_pairs;
        order.own_kept += (a.halves->even < b.halves->even) == (a.halves->odd < b.halves->odd);
      }
      if (!differ_enough(a.wall, b.wall)) continue;
      const bool kept = (a.wall < b.wall) == (a.simulated < b.simulated);
      ++order.pairs;
      order.kept += kept;
      if (!rounds_agree(a, b)) continue;
      ++order.sure_pairs;
      order.sure_kept += kept;
    }
  return order;
}

// By the values of `field`.
static std::map<std::string, GroupErrors> errors_by(const std::vector<ValidatedCase>& cases,
                                                    const std::function<std::string(const ValidatedCase&)>& field) {
  std::map<std::string, std::vector<double>> time, memory;
  for (const ValidatedCase& c : cases) {
    time[field(c)].push_back(c.error());
    std::ranges::copy(c.memory_errors, std::back_inserter(memory[field(c)]));
  }
  std::map<std::string, GroupErrors> groups;
  for (const auto& [name, errors] : time)
    groups[name] = {.time = summary_of(errors),
                    .memory = summary_of(memory[name]),
                    .order = order_of(cases, [&](const ValidatedCase& c) { return field(c) == name; })};
  return groups;
}

Validation validate(std::vector<ValidatedCase> cases) {
  Validation v;
  std::vector<double> time, single, memory, rounds, halves;
  for (const ValidatedCase& c : cases) {
    time.push_back(c.error());
    memory.insert(memory.end(), c.memory_errors.begin(), c.memory_errors.end());
    single.insert(single.end(), c.single_errors.begin(), c.single_errors.end());
    rounds.insert(rounds.end(), c.round_errors.begin(), c.round_errors.end());
    if (c.halves) halves.push_back(c.halves->odd / c.halves->even - 1);
  }
  v.time = summary_of(time);
  v.memory = summary_of(memory);
  v.single = summary_of(single);
  v.rounds = summary_of(rounds);
  v.halves = summary_of(halves);
  v.by_system = errors_by(cases, &ValidatedCase::system);
  v.by_workload = errors_by(cases, &ValidatedCase::workload);
  v.by_micro_batch = errors_by(cases, [](const ValidatedCase& c) { return fmt::format("{:>4}", c.micro_batch); });
  v.by_transport = errors_by(cases, &ValidatedCase::transport);
  v.order = order_of(cases, [](const ValidatedCase&) { return true; });
  v.cases = std::move(cases);
  return v;
}

std::string reason_of(const ValidatedCase& c) {
  if (c.round_spread > std::abs(c.error()))
    return fmt::format("the wall clock itself varied by {:.0f} % between rounds", 100 * c.round_spread);
  return c.cause.empty() ? "no timeline to compare" : c.cause;
}

static std::string row(const std::string& name, const ErrorSummary& s) {
  return fmt::format("  {:<28} {:>5}   {:>6.1f} %  {:>6.1f} %  {:>6.1f} %  {:>+6.1f} %\n", name, s.cases,
                     100 * s.median, 100 * s.p90, 100 * s.largest, 100 * s.bias);
}

std::string to_table(const Validation& v, double limit) {
  std::string text = fmt::format("  {:<28} {:>5}   {:>8}  {:>8}  {:>8}  {:>8}\n", "error of the virtual clock", "cases",
                                 "median", "90th", "largest", "bias");
  for (const auto& [heading, groups] :
       {std::pair("by system", &v.by_system), std::pair("by workload", &v.by_workload),
        std::pair("by samples in a micro-batch", &v.by_micro_batch), std::pair("by transport", &v.by_transport)}) {
    text += fmt::format("{}\n", heading);
    for (const auto& [name, errors] : *groups)
      text += row(groups == &v.by_system ? title_of(name, "") : name, errors.time);
  }
  text += "all\n" + row("seconds of an update", v.time) + row("peak memory of a rank", v.memory);
  if (v.rounds.cases > 0)
    text += "a round by itself\n" + row("seconds of an update", v.single) + "the wall clock against itself\n" +
            row("a round against the others", v.rounds) + row("odd rounds against even ones", v.halves);
  text += fmt::format("order kept: {} of {} pairs of one workload that differ by more than 5 % ({:.1f} %)\n",
                      v.order.kept, v.order.pairs, 100 * v.order.share());
  if (v.rounds.cases > 0)
    text += fmt::format(
        "of those that the wall clock itself orders alike in every round: {} of {} ({:.1f} %)\n"
        "the wall clock's own order in its even rounds, kept by its odd ones: {} of {} ({:.1f} %)\n",
        v.order.sure_kept, v.order.sure_pairs, 100 * v.order.sure_share(), v.order.own_kept, v.order.own_pairs,
        100 * v.order.own_share());
  std::vector<const ValidatedCase*> beyond;
  for (const ValidatedCase& c : v.cases)
    if (std::abs(c.error()) > limit) beyond.push_back(&c);
  std::ranges::sort(beyond, [](const auto* a, const auto* b) { return std::abs(a->error()) > std::abs(b->error()); });
  text += fmt::format("beyond {:.0f} %: {} of {} cases\n", 100 * limit, beyond.size(), v.cases.size());
  for (const ValidatedCase* c : beyond)
    text += fmt::format("  {:>+6.1f} %  {}: {:.4g} ms measured, {:.4g} ms predicted; {}\n", 100 * c->error(), c->label,
                        1e3 * c->wall, 1e3 * c->simulated, reason_of(*c));
  return text;
}

static Json summary_json(const ErrorSummary& s) {
  return {{"cases", s.cases}, {"median", s.median}, {"p90", s.p90}, {"largest", s.largest}, {"bias", s.bias}};
}

static Json order_json(const OrderKept& order) {
  return {{"pairs", order.pairs},           {"kept", order.kept},           {"share", order.share()},
          {"sure_pairs", order.sure_pairs}, {"sure_kept", order.sure_kept}, {"sure_share", order.sure_share()},
          {"own_pairs", order.own_pairs},   {"own_kept", order.own_kept},   {"own_share", order.own_share()}};
}

Json to_json(const Validation& v) {
  Json json = {{"time", summary_json(v.time)},
               {"memory", summary_json(v.memory)},
               {"single", summary_json(v.single)},
               {"rounds", summary_json(v.rounds)},
               {"halves", summary_json(v.halves)},
               {"order", order_json(v.order)},
               {"cases", Json::array()}};
  for (const auto& [name, groups] :
       {std::pair("by_system", &v.by_system), std::pair("by_workload", &v.by_workload),
        std::pair("by_micro_batch", &v.by_micro_batch), std::pair("by_transport", &v.by_transport)})
    for (const auto& [group, errors] : *groups) {
      json[name][group] = summary_json(errors.time);
      json[name][group]["memory"] = summary_json(errors.memory);
      json[name][group]["order"] = order_json(errors.order);
    }
  for (const ValidatedCase& c : v.cases)
    json["cases"].push_back({{"label", c.label},
                             {"wall_seconds", c.wall},
                             {"simulated_seconds", c.simulated},
                             {"error", c.error()},
                             {"round_spread", c.round_spread},
                             {"memory_errors", c.memory_errors},
                             {"reason", reason_of(c)}});
  return json;
}

}  // namespace sluice
