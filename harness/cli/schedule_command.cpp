#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/base/visible_text.h"
#include "harness/cli/chrome_trace.h"
#include "harness/cli/commands.h"
#include "harness/cli/drawn_lengths.h"
#include "harness/cli/schedule_figures.h"
#include "harness/cli/timeline_page.h"
#include "harness/program/pytorch_table.h"
#include "harness/program/schedule_picture.h"

namespace sluice {

namespace {

int positive(const std::string& flag, int value, int most) {
  if (value < 1 || value > most)
    throw InputError(flag, std::to_string(value) + " is out of range", "give 1 to " + std::to_string(most));
  return value;
}

OpCosts op_costs(const ScheduleArguments& a) {
  OpCosts costs = parse_op_costs(a.costs);
  costs.host_copy = a.host_copy;
  if (!(a.host_copy >= 0 && a.host_copy <= kMaxOpSeconds))
    throw InputError("--host-copy", fmt::format("{:g} seconds is out of range", a.host_copy),
                     fmt::format("give 0 to {:g}", kMaxOpSeconds));
  return costs;
}

bool gives_pairs(const OpCosts& costs) {
  return std::ranges::any_of(costs.stages, [](const OpCosts::OfStage& stage) { return stage.pair.has_value(); });
}

Json number(double v) { return v == std::round(v) ? Json(static_cast<std::int64_t>(v)) : Json(v); }

// The system's options; --chunks is the option of that name, where there is one.
Options options_with_chunks(const System& system, const ScheduleArguments& a,
                            std::map<std::string, std::string> given) {
  const bool declared = std::ranges::count(system.options, "chunks", &OptionSpec::name) > 0;
  if (a.chunks) positive("--chunks", *a.chunks, 1000);
  if (a.chunks && declared) {
    const auto [set, fresh] = given.try_emplace("chunks", std::to_string(*a.chunks));
    if (set->second != std::to_string(*a.chunks))
      throw InputError("--chunks", "is " + std::to_string(*a.chunks) + ", but chunks=" + set->second + " is set",
                       "give one of them");
  }
  const Options options = resolve_options(system.options, given, "--set");
  const int chunks = stages_per_rank(system, options);
  if (a.chunks && *a.chunks != chunks)
    throw InputError(
        "--chunks",
        system.name + " places " + std::to_string(chunks) + (chunks == 1 ? " stage" : " stages") + " on a rank",
        "leave --chunks out");
  positive("chunks", chunks, 1000);
  return options;
}

CostsOf costs_of(const ScheduleArguments& a, bool several) {
  const std::vector<std::string> names = {"stage", "rank"};
  if (a.costs_of.empty()) return several ? CostsOf::rank : CostsOf::stage;
  if (std::ranges::count(names, a.costs_of) == 0)
    throw InputError("--costs-of", "unknown value '" + a.costs_of + "'", suggestion(a.costs_of, names));
  return a.costs_of == "rank" ? CostsOf::rank : CostsOf::stage;
}

// The ops are nearly all of the document: they are written rank by rank, as Json::dump would, instead of being held
// as JSON and as text at once.
void print_with_ops(const std::string& document, const Schedule& schedule) {
  const std::string place = "\"ops\": null";
  const std::size_t at = document.find(place);
  fmt::print("{}\"ops\": {{", document.substr(0, at));
  std::map<std::string, std::size_t> ranks;  // in the order of their texts, as JSON's keys are
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) ranks[std::to_string(r)] = r;
  const char* before_rank = "\n";
  for (const auto& [name, rank] : ranks) {
    fmt::print("{}    \"{}\": [", before_rank, name);
    const char* before_op = "\n";
    for (const std::string& op : step_texts(schedule.ranks[rank], schedule.sequence_chunks)) {
      fmt::print("{}      \"{}\"", before_op, op);
      before_op = ",\n";
    }
    fmt::print("{}]", before_op[0] == ',' ? "\n    " : "");
    before_rank = ",\n";
  }
  fmt::print("\n  }}{}\n", document.substr(at + place.size()));
}

MicrobatchSizes sizes_of(const ScheduleArguments& a) {
  const std::vector<int> sizes = lengths_in(a.microbatch_sizes, "--microbatch-sizes");
  return sizes.empty() ? MicrobatchSizes() : MicrobatchSizes({sizes.begin(), sizes.end()});
}

// The sizes, as --microbatch-sizes, that the first of the systems that can forms of --sample-lengths.
std::string formed_microbatches(const std::vector<const System*>& systems, const ScheduleArguments& a) {
  constexpr int kMaxSamples = 1000, kMaxLength = 1'000'000;
  const std::vector<int> lengths = lengths_in(a.sample_lengths, "--sample-lengths");
  if (count_of(lengths) > kMaxSamples)
    throw InputError("--sample-lengths", "has " + std::to_string(lengths.size()) + " samples",
                     "give at most " + std::to_string(kMaxSamples));
  for (const int length : lengths) positive("--sample-lengths", length, kMaxLength);
  for (const auto& [flag, value] :
       {std::pair("--group-overhead", a.group_overhead), std::pair("--group-limit", a.group_limit)})
    if (value < 0 || value > kMaxSamples * kMaxLength)
      throw InputError(flag, std::to_string(value) + " is out of range",
                       "give 0 to " + std::to_string(kMaxSamples * kMaxLength));
  const auto forms = std::ranges::find_if(systems, [](const System* system) { return system->group_samples; });
  if (forms == systems.end())
    throw InputError("--sample-lengths", "none of the systems forms micro-batches of samples",
                     "add dynapipe to --system, or give --microbatch-sizes");
  SamplesToGroup problem{.lengths = {lengths.begin(), lengths.end()},
                         .ranks = positive("--ranks", a.ranks, 65'536),
                         .overhead = a.group_overhead};
  if (a.group_limit > 0) problem.limit = a.group_limit;
  return fmt::format("{}", fmt::join((*forms)->group_samples(problem), ","));
}

constexpr std::int64_t kMaxListedOps = 2'000;  // more are no list that a person reads

// microbatches: of each of the system's replicas of the whole model, or of all together.
OrderOfOps order_of_arguments(const System& system, const Options& options, const ScheduleArguments& a, bool in_all,
                              CostsOf of) {
  positive("--ranks", a.ranks, 65'536);
  positive("--microbatches", a.microbatches, 10'000'000);
  const int chunks = stages_per_rank(system, options);
  if (a.ranks * chunks > 65'536)
    throw InputError("--ranks", std::to_string(a.ranks * chunks) + " stages are too many", "use at most 65536");
  const MicrobatchSizes sizes = sizes_of(a);
  const std::int64_t ops = 3LL * a.microbatches * a.ranks * (system.one_process ? 1 : chunks);
  // What is written op by op takes many times the memory of the schedule; an order that is a rule takes none.
  const bool op_by_op = a.json || a.csv || a.text || a.versions || !a.trace.empty() || !a.html.empty();
  const bool as_rule = system.op_rule && !op_by_op && !in_all && !sizes.differ() && 2 * ops > 3 * kMaxListedOps &&
                       order_of(system, options, 2, 2, {}, {}, of, true).rule_of_ops;
  const std::int64_t most = op_by_op ? 20'000'000 : as_rule ? 2'000'000'000 : 60'000'000;
  if (ops > most)
    throw InputError("--microbatches", "the schedule would have " + std::to_string(ops) + " ops",
                     "use fewer: " + std::to_string(most) + " ops are possible");
  const int microbatches = a.microbatches * (system.data_parallel && !in_all && !sizes.differ() ? a.ranks : 1);
  return order_of(system, options, a.ranks, microbatches, sizes, op_costs(a), of, as_rule);
}

// Without the ops, which print_with_ops() writes.
Json document_of(const OrderOfOps& order, const ScheduleFigures& f, const ScheduleArguments& a) {
  Json reads = Json::object(), idle = Json::array(), in_flight = Json::array(), until_w = Json::array();
  for (std::size_t r = 0; r < order.schedule.ranks.size(); ++r) {
    if (a.versions) reads[std::to_string(r)] = reads_of(f.program.ranks[r], f.program.sequence_chunks);
    idle.push_back(number(f.simulation.bubble.idle[r]));
    in_flight.push_back(f.peak[r].in_flight);
    until_w.push_back(f.peak[r].until_weight_gradient);
  }
  const auto costs_of_stage = [&](std::size_t s) {
    const StageCost& stage = order.costs[s];
    Json of_stage = {{"F", number(stage.forward.value)},
                     {"I", number(stage.input_gradient.value)},
                     {"W", number(stage.weight_gradient.value)}};
    if (stage.pair_share != 1) of_stage["pair_share"] = stage.pair_share;
    return of_stage;
  };
  Json costs = Json::object();
  if (op_costs(a).stages.size() == 1) {
    costs = costs_of_stage(0);
  } else {
    for (std::size_t s = 0; s < order.costs.size(); ++s) costs["stages"].push_back(costs_of_stage(s));
  }
  costs["latency"] = number(order.latency);
  Json document = {{"ranks", order.schedule.ranks.size()},
                   {"microbatches", order.system ? a.microbatches : order.schedule.whole_microbatches()},
                   {"costs", costs},
                   {"ops", nullptr},
                   {"makespan", number(f.simulation.bubble.makespan)},
                   {"idle", idle},
                   {"bubble_ratio", f.simulation.bubble.bubble_ratio},
                   {"span_bubble", f.simulation.bubble.span_bubble},
                   {"peak", in_flight},
                   {"peak_until_W", until_w}};
  if (order.sizes.differ()) document["microbatch_sizes"] = counts_in(a.microbatch_sizes, "--microbatch-sizes");
  if (a.host_copy > 0) document["costs"]["host_copy"] = number(order.host_copies.front().value);
  if (order.schedule.sequence_chunks > 1) document["sequence_chunks"] = order.schedule.sequence_chunks;
  if (order.system) {
    document["system"] = order.name;
    document["options"] = order.options.values();
    document["chunks"] = stages_per_rank(*order.system, order.options);
  } else {
    document["file"] = order.name;
  }
  if (a.versions) document["reads"] = reads;
  return document;
}

void print_ops(const OrderOfOps& order, const ScheduleFigures& f, const ScheduleArguments& a) {
  std::int64_t ops = order.rule_of_ops.ops * std::ssize(order.devices);
  for (const auto& rank : order.schedule.ranks) ops += std::ssize(rank);
  if (a.text) {
    fmt::print("{}", draw_schedule(f.simulation.trace));
  } else if (!a.versions && ops > kMaxListedOps) {
    fmt::print("{} ops on {} ranks: --json, --csv and --text list them\n", ops, order.devices.size());
  } else if (!a.versions) {
    fmt::print("{}", to_text(order.schedule));
  }
  if (!a.versions) return;
  for (std::size_t r = 0; r < f.program.ranks.size(); ++r)
    fmt::print("rank {}: {}\n", r, fmt::join(reads_of(f.program.ranks[r], f.program.sequence_chunks), " "));
  fmt::print("@v: the weights after v updates of the stage{}\n",
             f.program.rule.predicts() ? "; @v+s: those, predicted s updates ahead" : "");
}

// What costs are of, and activations are counted in, if micro-batches differ.
const char* unit_of(const ScheduleArguments& a) { return a.sample_lengths.empty() ? "sample" : "unit of length"; }
const char* units_of(const ScheduleArguments& a) { return a.sample_lengths.empty() ? "samples" : "units of length"; }

constexpr std::size_t kMaxShownRanks = 64;

void print_ranks(const OrderOfOps& order, const ScheduleFigures& f, const ScheduleArguments& a) {
  const std::size_t shown = std::min(f.peak.size(), kMaxShownRanks);
  for (std::size_t r = 0; r < shown; ++r) {
    fmt::print("rank {:<3} idle {:g}, peak {} in flight", r, f.simulation.bubble.idle[r], f.peak[r].in_flight);
    // (Where W runs on another rank, the micro-batches that wait for it are there.)
    if (f.peak[r].until_weight_gradient != f.peak[r].in_flight && order.placement.weight_gradient_ranks.empty())
      fmt::print(", {} with those that wait for W", f.peak[r].until_weight_gradient);
    if (order.sizes.differ()) fmt::print(", activations of at most {:g} {}", f.activations[r], units_of(a));
    if (f.program.rule.recompute != WeightRule::Recompute::none) fmt::print(", {} of them whole", f.whole_in_flight[r]);
    if (order.sharding.active())
      fmt::print(", {} gathers, {} reductions", f.collectives[r].gathers.size(), f.collectives[r].reductions.size());
    fmt::print("\n");
  }
  if (shown == f.peak.size()) return;
  const auto [least, longest] = std::ranges::minmax(std::span(f.simulation.bubble.idle).subspan(shown));
  const auto [fewest, most] = std::ranges::minmax(std::span(f.peak).subspan(shown), {}, &RankPeak::in_flight);
  fmt::print("ranks {} to {}: idle {:g} to {:g}, peak {} to {} in flight\n", shown, f.peak.size() - 1, least, longest,
             fewest.in_flight, most.in_flight);
}

int print_one(const OrderOfOps& order, const ScheduleArguments& a, const std::optional<OutputFile>& trace,
              const std::optional<OutputFile>& page) {
  const ScheduleFigures f = figures_of(order, {.repeated = !a.json && !a.csv, .trace = a.text || trace || page});
  if (!order.theory.note.empty()) fmt::print(stderr, "sluice: {}: {}\n", visible(order.name), order.theory.note);
  if (trace)
    trace->write(chrome_trace({.title = order.system ? order.system->title : order.name,
                               .program = f.program,
                               .trace = f.simulation.trace,
                               .marked = f.collectives}));
  if (page)
    page->write(timeline_page(
        {.title = order.system ? order.system->title : order.name,
         .about = fmt::format("--costs {} of a {}", a.costs, costs_of(a, false) == CostsOf::rank ? "rank" : "stage"),
         .what = "the schedule",
         .ranks = {}},
        f.simulation.trace));
  if (a.csv) {
    Program program = f.program;
    program.sharding = order.sharding;
    const PyTorchTable table = pytorch_table(order.schedule, program, order.name,
                                             a.messages ? TableFormat::compute_comms : TableFormat::compute_only);
    for (const std::string& lost : table.lost) fmt::print(stderr, "note: not in the table: {}\n", lost);
    fmt::print("{}", table.csv);
    return 0;
  }
  if (a.json) {
    print_with_ops(document_of(order, f, a).dump(2), order.schedule);
    return 0;
  }
  print_ops(order, f, a);
  fmt::print("makespan {:g}, bubble ratio {:.4f}, span bubble {:.4f}\n", f.simulation.bubble.makespan,
             f.simulation.bubble.bubble_ratio, f.simulation.bubble.span_bubble);
  const double share = order.share.front();
  const bool alike = std::ranges::count(order.share, share) == static_cast<std::ptrdiff_t>(order.share.size());
  if (share != 1 && alike && op_costs(a).stages.size() == 1) {
    const StageCost& stage = order.costs.front();
    fmt::print("a stage is {:.4g} of a rank's share of the model, its F/I/W take {:g}/{:g}/{:g}{}\n", share,
               stage.forward.value, stage.input_gradient.value, stage.weight_gradient.value,
               a.costs_of == "rank" ? "" : " (--costs-of rank: in proportion)");
  }
  if (order.rule.synchronous())
    fmt::print("one update after another: {:g} each with step=free, {:g} with step=barrier\n", f.update_free,
               f.update_barrier);
  if (order.theory.bubble_ratio)
    fmt::print("by formula at F = I = W{}, without latency: {:.4f}\n",
               has_pairs(order.schedule) && gives_pairs(op_costs(a)) ? ", pairs as long as their ops" : "",
               *order.theory.bubble_ratio);
  print_ranks(order, f, a);
  if (order.schedule.sequence_chunks > 1)
    fmt::print("in flight are chunks of sequences, {} of which make a micro-batch\n", order.schedule.sequence_chunks);
  return 0;
}

// Several systems, or a file and systems: all for the same micro-batches, and the same work for a rank.
int print_several(const std::vector<OrderOfOps>& orders, const std::vector<std::string>& rejected,
                  const ScheduleArguments& a) {
  std::vector<ScheduleFigures> figures;
  for (const OrderOfOps& order : orders) figures.push_back(figures_of(order, {.repeated = true, .trace = a.text}));
  if (a.json) {
    Json documents = Json::array();
    for (std::size_t i = 0; i < orders.size(); ++i) {
      Json document = document_of(orders[i], figures[i], a);
      document["ops"] = Json::object();
      for (std::size_t r = 0; r < orders[i].schedule.ranks.size(); ++r)
        document["ops"][std::to_string(r)] =
            step_texts(orders[i].schedule.ranks[r], orders[i].schedule.sequence_chunks);
      document["seconds_per_microbatch"] = figures[i].seconds_per_microbatch;
      document["activations"] = figures[i].activations;
      document["weight_versions"] = figures[i].weight_versions;
      document["messages"] = figures[i].messages;
      documents.push_back(std::move(document));
    }
    fmt::print("{}\n", documents.dump(2));
    return 0;
  }
  if (a.text || a.versions)
    for (std::size_t i = 0; i < orders.size(); ++i) {
      fmt::print("{}\n", visible(orders[i].name));
      print_ops(orders[i], figures[i], a);
      fmt::print("\n");
    }
  fmt::print("{}", visible_lines(schedule_comparison(orders, figures)));
  for (const std::string& reason : rejected) fmt::print("no schedule: {}\n", visible(reason));
  fmt::print(
      "--costs {} {}of a {}. micro-batch: seconds for each, one update after another (asynchronous: in a long run);\n"
      "makespan, bubble: of these micro-batches, from an empty pipeline to an empty one;\n"
      "activations: held at most by a rank, in {} of a rank's share of the model\n",
      a.costs, orders.front().sizes.differ() ? fmt::format("for a {} ", unit_of(a)) : "",
      costs_of(a, true) == CostsOf::rank ? "rank's share of the model" : "stage",
      orders.front().sizes.differ() ? units_of(a) : "micro-batches");
  return 0;
}

}  // namespace

// The table's order on a model's costs.
static int plan_of_table(const ScheduleArguments& a) {
  read_valid_table(a.from);  // a fault is one of --from
  PlanArguments plan{.trace = a.trace, .html = a.html, .json = a.json, .csv = a.csv};
  plan.flags.values = {{"system", "file:" + a.from}, {"workload", a.workload}};
  if (!a.cluster.empty()) plan.flags.values["cluster"] = a.cluster;
  return plan_command(plan);
}

int schedule_command(const ScheduleArguments& a) {
  if (!a.workload.empty()) return plan_of_table(a);
  if (a.system.empty() && a.from.empty())
    throw InputError("schedule", "--system is missing", "name a system, or a table with --from");
  const std::vector<const System*> systems = a.system.empty() ? std::vector<const System*>{} : systems_named(a.system);
  const bool several = systems.size() + (a.from.empty() ? 0 : 1) > 1;
  if (a.messages && !a.csv) throw InputError("--messages", "is of a table, and --csv is missing", "give both");
  for (const auto& [flag, given] :
       {std::pair("--csv", a.csv), std::pair("--trace", !a.trace.empty()), std::pair("--html", !a.html.empty())})
    if (several && given) throw InputError(flag, "is of one order", "give one system, or one table");
  reject_same_output({a.trace, a.html});
  std::optional<OutputFile> trace, page;
  if (!a.trace.empty()) trace = chrome_trace_file(a.trace);
  if (!a.html.empty()) page = timeline_page_file(a.html);
  const CostsOf of = costs_of(a, several);
  const auto given = given_options(a.set);
  if (several || systems.empty()) reject_undeclared(systems, given);
  ScheduleArguments shared = a;
  if (!a.sample_lengths.empty()) {
    shared.microbatch_sizes = formed_microbatches(systems, a);
    if (!a.json && !a.csv) fmt::print("--microbatch-sizes {}\n", shared.microbatch_sizes);
  } else if (a.microbatch_sizes.find(':') != std::string::npos) {
    shared.microbatch_sizes = fmt::format("{}", fmt::join(lengths_in(a.microbatch_sizes, "--microbatch-sizes"), ","));
    if (!a.json && !a.csv) fmt::print("--microbatch-sizes {}\n", shared.microbatch_sizes);
  }
  if (const MicrobatchSizes sizes = sizes_of(shared); sizes.differ()) shared.microbatches = count_of(sizes.samples());
  std::vector<OrderOfOps> orders;
  if (!a.from.empty()) {
    orders.push_back(order_from_table(read_valid_table(a.from), a.from, sizes_of(a), op_costs(a), of));
    shared.ranks = static_cast<int>(orders.front().schedule.ranks.size());  // what systems are compared with it at
    shared.microbatches = orders.front().schedule.whole_microbatches();
  }
  std::vector<std::string> rejected;
  for (const System* system : systems) {
    try {
      const Options options = options_with_chunks(*system, a, several ? options_of(*system, given) : given);
      orders.push_back(order_of_arguments(*system, options, shared, several, of));
    } catch (const InputError& e) {
      if (!several) throw;
      rejected.push_back(e.what());
    }
  }
  if (orders.empty()) throw InputError("schedule", "none of the systems has a schedule", rejected.front());
  if (gives_pairs(op_costs(a)) &&
      std::ranges::none_of(orders, [](const OrderOfOps& order) { return has_pairs(order.schedule); }))
    fmt::print(stderr, "sluice: --costs: the time of a pair has no effect: no op runs in an overlapped pair\n");
  return several ? print_several(orders, rejected, shared) : print_one(orders.front(), shared, trace, page);
}

}  // namespace sluice
