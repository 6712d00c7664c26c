// DynPipe (TPDS 36(11), 2025, doi 10.1109/TPDS.2025.3605491): 1F1B without a flush and with weight stashing, as
// PipeDream, over a partition that is chosen for the communication that compute does not hide and for what staleness
// costs, and chosen again while the training runs, when devices become slower or faster.
//
//   rank 0  F0 F1 F2       B0 F3 B1 F4 B2 ...      |drain|  layers move between ranks  |  F6 F7 F8 ...
//   rank 1     F0 F1    B0 F2 B1 F3 B2 ...
//   rank 2        F0 B0 F1 B1 F2 B2 ...
//
// The paper's abstract and the authors' runtime are public; the formula of the convergence term, the initial planner
// and the weights of the objective are not. These are ours: systems/dynpipe/period.h and partition.h say which.
//
// variant=dynpipe: layers that change their rank move there with their optimizer state, the rest stays.
// variant=restart: the same partitions; the whole job begins again from a checkpoint.
// variant=static: the first partition for ever.
//
// moves=...: these moves at these updates, instead of those that the detector would ask for: the moves of a record, for
// example, so that its training happens again.
//
// profile=code: the constants and rules of the released runtime: windows of 50 updates, a factor of 2, no weighing of
// what a change costs, only heavy layers as cuts, the last candidate merged away, 60 updates between the decision and
// the change.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "harness/base/error.h"
#include "harness/pipeline/moves.h"
#include "harness/plan/one_f_one_b_without_flush.h"
#include "systems/dynpipe/adapt.h"
#include "systems/dynpipe/co_run_profile.h"
#include "systems/dynpipe/co_run_rows.h"

namespace sluice {

namespace {

bool as_code(const Options& options) { return options.text("profile") == "code"; }

double lambda_of(const Options& options) { return options.integer("lambda") / 1000.0; }

DetectorOptions detector_of(const Options& options) {
  if (as_code(options)) return code_detector();
  return {.window = options.integer("window")};
}

// Grown once for the files that `forest` and `published` name: it is the same whenever it is asked for. Null: none.
const Forest* forest_of(const Options& options) {
  std::vector<std::string> files;
  for (const char* option : {"forest", "published"})
    if (options.text(option) != "none") files.push_back(options.text(option));
  if (files.empty()) return nullptr;
  static std::mutex mutex;
  static std::map<std::vector<std::string>, std::unique_ptr<Forest>> known;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Forest>& forest = known[files];
  if (forest) return forest.get();
  ForestRows rows;
  for (const std::string& file : files) rows = joined_rows(rows, read_forest_rows(file));
  forest = std::make_unique<Forest>(rows, slowdown_forest_options());
  return forest.get();
}

void check_forest_rows(const std::string& file) { read_forest_rows(file); }

// How the run gets to another plan.
Adaptation adaptation_to(Plan plan, const Options& options) {
  Adaptation adaptation{.plan = std::move(plan)};
  if (options.text("variant") == "restart") {
    adaptation.restart = true;
    adaptation.pause = Seconds(options.integer("restart_milliseconds") / 1000.0);
  }
  return adaptation;
}

std::map<std::int64_t, Adaptation> dynpipe_prescribed(const Problem& problem, const Options& options) {
  std::map<std::int64_t, Adaptation> changes;
  if (options.text("moves") == "none") return changes;
  if (options.text("variant") == "static")
    throw InputError("moves", "layers never move with variant=static", "leave one of the two out");
  for (const PlanMove& move : parse_moves(options.text("moves"), "moves"))
    changes.emplace(move.update,
                    adaptation_to(plan_of(problem, {.cuts = cuts_before(problem, move.first_layers)}), options));
  return changes;
}

std::vector<PlannedPipeline> dynpipe_plan(const Problem& problem, const Options& options) {
  // What cannot be read is an error before the run.
  forest_of(options);
  dynpipe_prescribed(problem, options);
  const DynPipeChain chain = chain_of(problem, lambda_of(options));
  DynPipeChoice choice = best_partition(chain, {});
  if (choice.cuts.empty() && chain.stages() > 1) {
    // Nothing fits into memory: the record says so of the best of all partitions.
    DynPipeChain roomy = chain;
    roomy.fits = {};
    choice = best_partition(roomy, {});
  }
  return {plan_of(problem, choice)};
}

std::optional<Adaptation> dynpipe_adapt(const Observations& observations, const Problem& problem,
                                        const Options& options) {
  if (options.text("variant") == "static") return std::nullopt;
  const bool code = as_code(options);
  const AdaptOptions adapt{.detector = detector_of(options),
                           .candidates = {.code = code},
                           .forest = forest_of(options),
                           .lambda = lambda_of(options),
                           .weighs_cost = !code};
  std::optional<Plan> plan = adapted_plan(observations, problem, adapt);
  if (!plan) return std::nullopt;
  Adaptation adaptation = adaptation_to(std::move(*plan), options);
  adaptation.after_updates = code ? 60 : 0;
  return adaptation;
}

Theory dynpipe_theory(const ScheduleProblem& problem, const Options&) {
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = problem.ranks, n = problem.microbatches;
  for (int r = 0; r < p && !theory.in_flight.empty(); ++r) {
    const int w = std::min(n, p - r);
    theory.weight_versions.push_back(std::min(w, n - w + 2));
  }
  return theory;
}

}  // namespace

extern const System dynpipe;
const System dynpipe = {
    .name = "dynpipe",
    .aliases = {},
    .title = "DynPipe",
    .citation =
        "DynPipe, IEEE Transactions on Parallel and Distributed Systems 36(11):2366-2382, 2025 "
        "(doi 10.1109/TPDS.2025.3605491)",
    .written_from = {WrittenFrom::code,
                     {{"planner", WrittenFrom::ours},
                      {"convergence term", WrittenFrom::ours},
                      {"objective of a move", WrittenFrom::ours},
                      {"detector of profile=own", WrittenFrom::ours}},
                     "The planner, the convergence term, the objective of a move and the detector of profile=own are "
                     "ours; the abstract says what they are for."},
    .synchronous = false,
    .options =
        {training_only({"variant",
                        "dynpipe",
                        "what follows a change of a device: dynpipe (layers move between ranks), restart (the job "
                        "begins again from a checkpoint) or static (nothing)",
                        {"dynpipe", "restart", "static"}}),
         training_only({"profile",
                        "own",
                        "detector and candidates: own, or code (constants of the released runtime)",
                        {"own", "code"}}),
         training_only(
             only_with({"window", "25", "updates between two checks of the ranks' times"}, "profile", {"own"})),
         {.name = "lambda",
          .default_value = "0",
          .help = "thousandths by which an update of mean staleness adds to the iterations, as fitted to runs: sluice "
                  "compare --metric staleness_cost",
          .minimum = 0},
         {.name = "forest",
          .default_value = "none",
          .help = "file of sluice profile --co-run, on which the forest is trained that predicts a stage's slowdown; "
                  "none: the slowdown observed on the device",
          .check_file = check_forest_rows,
          .only_with = {{"variant", {"static"}, /*except=*/true}, {"moves", {"none"}}},
          .training_only = true},
         {.name = "published",
          .default_value = "none",
          .help = "further training data of the forest: Gavel's published co-location slowdowns, a .csv file",
          .check_file = check_forest_rows,
          .in_digest_unless_default = true,
          .only_with = {{"variant", {"static"}, /*except=*/true}, {"moves", {"none"}}},
          .training_only = true},
         {.name = "moves",
          .default_value = "none",
          .help = "prescribed moves instead of detected ones, each UPDATE:FIRST LAYERS of the stages from the second "
                  "on: 214:7,431:3 (records hold theirs as observed.adaptation.moves); 0:7 begins with that plan",
          .check_text = [](const std::string& moves, const std::string& where) { parse_moves(moves, where); },
          .in_digest_unless_default = true,
          .training_only = true},
         {.name = "restart_milliseconds",
          .default_value = "5000",
          .help = "what ending and starting the job takes, on the virtual clock",
          .minimum = 0,
          .only_with = {{"variant", {"restart"}}},
          .training_only = true}},
    .own_cuts = [](const Options&) { return true; },
    .candidates = dynpipe_plan,
    .schedule = [](const ScheduleProblem& p, const Options&) { return one_f_one_b_without_flush(p); },
    .weights = [](const ScheduleProblem&,
                  const Options&) { return WeightRule{.update = WeightRule::Update::every_backward}; },
    .theory = dynpipe_theory,
    .adapt = dynpipe_adapt,
    .window = [](const Options& options) { return detector_of(options).window; },
    .prescribed = dynpipe_prescribed,
    .co_run_file = co_run_file,
};

}  // namespace sluice
