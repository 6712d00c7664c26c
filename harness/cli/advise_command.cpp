#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/cli/advise.h"
#include "harness/cli/commands.h"

namespace sluice {

namespace {

std::vector<int> counts_named(const std::string& text, const char* flag) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const std::optional<std::int64_t> count = whole_number_in(item);
    if (!count || *count < 1 || *count > kMostCount)
      throw InputError(flag, "'" + item + "' is not a number of at least 1", "write 8 or 4,8,16");
    counts.push_back(static_cast<int>(*count));
  }
  return counts;
}

std::string name_of(const Candidate& c) {
  const std::string options = options_text(c);
  return c.system->name + (options.empty() ? "" : " " + options);
}

// The best candidate of every system that has one which fits, in order.
std::vector<const Candidate*> best_of_systems(const Advice& advice) {
  std::vector<const Candidate*> best;
  for (const Candidate& c : advice.candidates)
    if (c.fits() && std::ranges::none_of(best, [&](const Candidate* b) { return b->system == c.system; }))
      best.push_back(&c);
  return best;
}

void print_rows(const std::vector<const Candidate*>& rows, const Candidate& winner, bool asynchronous) {
  std::size_t wide = 6;
  for (const Candidate* c : rows) wide = std::max(wide, name_of(*c).size());
  fmt::print("{:<{}}  {:>12} {:>4} {:>3} {:>10} {:>6} {:>9} {:>7} {:>8}  {}\n", "system", wide, "micro-batch", "d", "t",
             "samples/s", "ratio", "peak/rank", "bubble", "messages",
             asynchronous ? "stale by, versions; why it loses" : "why it loses");
  for (const Candidate* c : rows) {
    std::string why = c == &winner                                        ? ""
                      : c->samples_per_second < winner.samples_per_second ? why_slower(*c, winner)
                                                                          : "faster";
    if (asynchronous) why = fmt::format("{} updates, {}; {}", c->staleness, c->versions, why);
    fmt::print("{:<{}}  {:>12} {:>4} {:>3} {:>10.4g} {:>5.2f}x {:>9} {:>6.1f}% {:>7.1f}%  {}\n", name_of(*c), wide,
               fmt::format("{} x {}", c->count("microbatches"), c->micro_batch), c->count("data_parallel"),
               c->count("tensor"), c->samples_per_second, c->samples_per_second / winner.samples_per_second,
               to_text(c->peak), 100 * c->bubble, 100 * c->split.messages / c->split.update(), why);
  }
}

Json document_of(const Candidate& c, const Candidate* winner) {
  return {{"system", c.system->name},
          {"options", c.entry.values.value("options", std::map<std::string, std::string>())},
          {"synchronous", c.system->synchronous},
          {"microbatches", c.count("microbatches")},
          {"micro_batch", c.micro_batch},
          {"data_parallel", c.count("data_parallel")},
          {"tensor", c.count("tensor")},
          {"ranks_used", c.ranks_used},
          {"samples_per_second", c.samples_per_second},
          {"update_seconds", c.update_seconds},
          {"peak_bytes", c.peak.value},
          {"bubble_ratio", c.bubble},
          {"staleness", c.staleness},
          {"weight_versions", c.versions},
          {"seconds",
           {{"computing", c.split.computing},
            {"uneven_ranks", c.split.uneven},
            {"waiting", c.split.waiting},
            {"messages", c.split.messages}}},
          {"refused", c.fits() ? Json(nullptr) : Json(c.refused)},
          {"why", !winner || &c == winner ? "" : why_slower(c, *winner)},
          {"plan", plan_line(c)},
          {"run", run_line(c)}};
}

// PyTorch's table of one of the winner's pipelines: replicas of it are PyTorch's data parallelism.
std::string table_of(const Candidate& winner) {
  Entry one = winner.entry;
  const int pipelines = winner.count("data_parallel");
  for (const char* key : {"ranks", "batch", "microbatches"})
    if (one.values.contains(key)) one.values[key] = one.values[key].get<std::int64_t>() / pipelines;
  one.values.erase("data_parallel");
  return plan_table(evaluate_plan(resolve(one)));
}

// The systems without a candidate that fits, each with its first reason.
void print_refused(const Advice& advice, const std::vector<const Candidate*>& best) {
  std::vector<const System*> said;
  for (const Candidate* c : best) said.push_back(c->system);
  for (const Candidate& c : advice.candidates) {
    if (std::ranges::count(said, c.system) > 0) continue;
    said.push_back(c.system);
    const std::string name = c.system->name + ": ";
    fmt::print("none fits: {}{}\n", c.refused.starts_with(name) ? "" : name, c.refused);
  }
}

}  // namespace

int advise_command(const AdviseArguments& a) {
  AdviceRequest request{entry_of(a.flags, timed_only()), counts_named(a.microbatches, "--microbatches"),
                        counts_named(a.tensor, "--tensor"), systems_named(a.system), a.seconds};
  if (std::ranges::all_of(request.systems, &System::inference_only))
    throw InputError("--system", "'" + a.system + "' only infers, and advice is for training",
                     "sluice plan shows its pipeline");
  if (!(a.seconds > 0)) throw InputError("--seconds", "must be greater than 0");
  if (!a.memory.empty()) {
    parse_bytes(a.memory, "--memory");
    Json& values = request.entry.values;
    values["cluster"] = values.value("cluster", RunCase{}.cluster) + ",memory=" + a.memory;
  }
  const Advice advice = advise(request);
  const std::vector<const Candidate*> best = best_of_systems(advice);
  std::vector<const Candidate*> flushing, stale;
  for (const Candidate* c : best) (c->system->synchronous ? flushing : stale).push_back(c);
  const Candidate* winner = !flushing.empty() ? flushing.front() : !stale.empty() ? stale.front() : nullptr;
  if (a.json) {
    Json all = Json::array();
    for (const Candidate& c : advice.candidates) all.push_back(document_of(c, winner));
    fmt::print("{}\n", Json{{"candidates", all},
                            {"winner", winner ? document_of(*winner, winner) : Json(nullptr)},
                            {"untried", advice.untried}}
                           .dump(2));
    return winner ? 0 : 1;
  }
  if (!winner) {
    print_refused(advice, best);
    throw InputError("advise", "no system has a plan that fits", "give more memory, ranks or micro-batches");
  }
  if (!flushing.empty()) print_rows(flushing, *winner, false);
  if (!stale.empty()) {
    fmt::print("\n{}\n",
               "Asynchronous systems. They compute gradients with stale weights, which costs accuracy that "
               "no throughput shows:\nresults/findings/staleness.md, and sluice run staleness measures it.");
    print_rows(stale, *winner, true);
  }
  fmt::print("\n");
  print_refused(advice, best);
  if (!advice.untried.empty())
    fmt::print("--seconds {:g} were not enough for all of: {}\n", a.seconds, fmt::join(advice.untried, ", "));
  fmt::print(
      "{} candidates; d: data-parallel pipelines; t: devices that share every layer; in brackets, the same of the "
      "first row\n\n",
      advice.candidates.size());
  print_plan(evaluate_plan(resolve(winner->entry)));
  fmt::print("\n{}\n{}\n", plan_line(*winner), run_line(*winner));
  if (!a.csv.empty()) {
    std::ofstream out(a.csv);
    out << table_of(*winner);
    out.flush();
    if (!out) throw InputError("--csv", "'" + a.csv + "' cannot be written");
    fmt::print("PyTorch's table: {}\n", a.csv);
  }
  return 0;
}

}  // namespace sluice
