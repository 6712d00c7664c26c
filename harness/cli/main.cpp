#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <system_error>

#include "harness/base/error.h"
#include "harness/cli/commands.h"
#include "harness/exec/mpi/mpi.h"

namespace {

// Always one line, whatever the text holds.
void print_error(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  std::fprintf(stderr, "error: %s\n", text.c_str());
}

std::string help_advice(const CLI::App* command) {
  return "see sluice " + (command ? command->get_name() + " " : "") + "--help";
}

// What the parser objects to, in our form: "schedule: unknown flag '--rank'; did you mean
// '--ranks'?"
sluice::InputError usage_error(const CLI::App& app, const CLI::ParseError& error,
                               const std::vector<std::string>& arguments) {
  std::vector<std::string> commands;
  const CLI::App* command = nullptr;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(c->get_name());
    if (!arguments.empty() && arguments.front() == c->get_name()) command = c;
  }
  if (!command) {
    if (arguments.empty()) return {"sluice", "no command given", help_advice(nullptr)};
    const bool flag = arguments.front().starts_with('-');
    return {"sluice", std::string("unknown ") + (flag ? "flag" : "command") + " '" + arguments.front() + "'",
            flag ? help_advice(nullptr) : sluice::suggestion(arguments.front(), commands)};
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      const std::string name = arguments[i].substr(0, arguments[i].find('='));
      if (name.starts_with("--") && std::ranges::count(flags, name) == 0)
        return {command->get_name(), "unknown flag '" + name + "'", sluice::suggestion(name, flags)};
    }
  }
  std::string what = error.what();
  while (what.ends_with('\n') || what.ends_with('.')) what.pop_back();
  return {command->get_name(), what, help_advice(command)};
}

// Everything that was printed has arrived: a full disk behind a redirection must not pass for done.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  print_error(std::string("stdout: cannot be written: ") + std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Sluice: a benchmarking and reproduction harness for pipeline-parallel training.\n"
      "Runs published systems under one harness: throughput, memory, time to accuracy.\n"};
  app.name("sluice");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  sluice run harness/sweeps/quick.json        the quick sweep\n"
      "  sluice schedule --system 1f1b --ranks 4 --microbatches 8 --text\n"
      "  sluice run --system gpipe --workload fmnist_cnn --ranks 2\n"
      "Exit codes: 0 done; 1 a run or a check failed; 2 bad usage or bad input.");
  std::function<int()> chosen;

  sluice::ListArguments list;
  CLI::App* c = app.add_subcommand("list", "What there is: systems, workloads, clusters, sweeps");
  c->add_option("what", list.what, "systems, workloads, clusters or sweeps (default: all)");
  c->add_flag("--json", list.json, "One JSON document on stdout");
  c->callback([&] { chosen = [&] { return list_command(list); }; });

  sluice::PlanArguments plan;
  c = app.add_subcommand("plan", "Partition a workload over a cluster and show the plan");
  c->add_option("--system", plan.system, "System whose planner to use")->required();
  c->add_option("--workload", plan.workload,
                "Workload (see sluice list workloads), or a profile file: CostGraph, Piper or "
                "dnn-partitioning JSON, PipeDream graph text, PipeEdge YAML (FILE#MODEL)")
      ->required();
  c->add_option("--cluster", plan.cluster,
                "Name, JSON file, or flat:N[,bandwidth=25GiB/s][,latency=5us][,memory=16GiB][,speed=1]")
      ->capture_default_str();
  c->add_option("--devices", plan.devices, "How many of its devices to use (default: all)");
  c->add_option("--batch", plan.batch, "Samples per update (default: the workload's)");
  c->add_option("--micro-batch", plan.micro_batch, "Samples per micro-batch (default: the workload's)");
  c->add_option("--costs", plan.costs,
                "analytic, profile (measured on this machine) or a file of sluice profile; with a "
                "profile file as workload: raw keeps its numbers as the authors' program takes them")
      ->capture_default_str();
  c->add_option("--set", plan.set, "Option of the system, key=value; may be repeated");
  c->add_flag("--json", plan.json, "One JSON document on stdout");
  c->callback([&] { chosen = [&] { return plan_command(plan); }; });

  sluice::ScheduleArguments schedule;
  c = app.add_subcommand("schedule", "Order of operations on a uniform chain, with makespan, bubbles and peaks");
  c->add_option("--system", schedule.system, "System whose order to print")->required();
  c->add_option("--ranks", schedule.ranks, "Pipeline ranks")->capture_default_str();
  c->add_option("--microbatches", schedule.microbatches,
                "Micro-batches of one update, of each replica of the whole model (asynchronous "
                "systems: mini-batches of one run)")
      ->capture_default_str();
  c->add_option("--chunks", schedule.chunks,
                "Stages per rank, for systems that place several (default: the system's own)");
  c->add_option("--costs", schedule.costs, "F/I/W[+latency] of one stage, e.g. 1/1/1 or 10/12/8+1")
      ->capture_default_str();
  c->add_option("--set", schedule.set, "Option of the system, key=value; may be repeated");
  c->add_flag("--json", schedule.json, "One JSON document on stdout");
  c->add_flag("--text", schedule.text, "Draw the time x rank grid");
  c->add_option("--trace", schedule.trace, "Write a Chrome/Perfetto trace to this file");
  c->callback([&] { chosen = [&] { return schedule_command(schedule); }; });

  sluice::VerifyArguments verify;
  c = app.add_subcommand("verify", "Replay weight-version cases through the real executor");
  c->add_option("--cases", verify.cases, "File of cases, e.g. harness/tests/data/weights.json")->required();
  c->add_option("--tolerance", verify.tolerance, "Largest absolute error of a weight or loss")->capture_default_str();
  c->add_option("--only", verify.only, "Names, or prefixes ending in '*'; the others are left out");
  c->add_flag("--json", verify.json, "One JSON document on stdout");
  c->callback([&] { chosen = [&] { return verify_command(verify); }; });

  sluice::ProfileArguments profile;
  c = app.add_subcommand("profile", "Measure a workload's cost graph on this machine");
  c->add_option("--workload", profile.workload, "Workload")->required();
  c->add_option("--micro-batch", profile.micro_batch, "Samples per micro-batch (default: the workload's)");
  c->add_option("--device", profile.device, "cpu or cuda")->capture_default_str();
  c->add_option("--out", profile.out, "File to write (default: stdout)");
  c->callback([&] { chosen = [&] { return profile_command(profile); }; });

  sluice::RunArguments run;
  c = app.add_subcommand("run", "Run a sweep, or one case; a record per case");
  c->add_option("sweep", run.sweep, "Sweep file (or the name of one in harness/sweeps)");
  const auto single = [&](const std::string& flag, const std::string& key, const std::string& help) {
    c->add_option_function<std::string>(
        flag, [&run, key](const std::string& value) { run.single[key] = value; }, help);
  };
  single("--system", "system", "One case: the system");
  single("--workload", "workload", "One case: the workload");
  single("--cluster", "cluster", "Cluster of the virtual clock (see plan)");
  single("--clock", "clock", "wall: really run, or virtual: real training, simulated time (default wall)");
  single("--costs", "costs",
         "profile, analytic or a file (default: profile on the wall clock, analytic on the virtual "
         "one)");
  single("--transport", "transport",
         "threads (default): ranks of this process; mpi: one process a rank, started by mpirun or "
         "srun; nccl with --device cuda, a GPU a rank");
  single("--device", "device", "cpu (default) or cuda");
  single("--ranks", "ranks", "Ranks (default 2; over MPI: as many as there are processes)");
  single("--data-parallel", "data_parallel",
         "Pipelines beside each other, each on its share of the ranks and micro-batches (default "
         "1)");
  single("--layout", "layout",
         "Where several pipelines lie: groups (default; a stage's ranks next to each other) or "
         "pipelines");
  single("--sharding", "sharding",
         "What the ranks of a stage divide: system (default; what it does of itself), none, "
         "optimizer (ZeRO-1), or weights too, gathered per use, visit or update (ZeRO-3)");
  single("--batch", "batch", "Samples per update (default: the workload's)");
  single("--microbatches", "microbatches", "Micro-batches per update (default: the workload's)");
  single("--epochs", "epochs", "Epochs, with an evaluation after each (default: the workload's)");
  single("--steps", "steps", "Updates without evaluation, instead of epochs");
  single("--seed", "seed", "Seed of the weights and the data order (default 1)");
  single("--evaluation", "evaluation",
         "drain (default): an asynchronous pipe runs empty before it is evaluated; snapshot: it "
         "runs on, copies are evaluated");
  single("--leftover", "leftover",
         "Micro-batches after an epoch's last whole update: drop (default) or partial, one smaller "
         "update (asynchronous systems that accumulate)");
  single("--weight-gradient", "weight_gradient", "per_microbatch (default) or batched");
  single("--step", "step",
         "Synchronous systems: free (default), a rank goes on once it has stepped, or barrier, once "
         "all have");
  single("--pin", "pin", "none (default) or core: every rank on a core of its own, through hwloc (wall clock)");
  single("--timeout", "timeout_seconds", "Seconds after which the case ends as timed_out");
  c->add_option("--set", run.set, "Option of the system, key=value; may be repeated");
  c->add_option("--inject-failure", run.inject_failure,
                "RANK:UPDATE: that rank fails in that update (to see what happens)");
  c->add_option("--out", run.out, "Records (default results/runs/NAME.jsonl)");
  c->add_flag("--resume", run.resume,
              "Skip cases, and candidates of a tuning, that already have a result (ok or diverged)");
  c->add_option("--checkpoints", run.checkpoints,
                "Folder for the state of unfinished cases, kept after each evaluation of a drained "
                "pipe; a case that has one goes on from it");
  c->add_option("--shard", run.shard,
                "i/n: only every n-th case from the i-th, for job arrays; cases that share the "
                "tuning of their learning rate stay together");
  c->add_flag("--dry-run", run.dry_run, "Check everything and list the cases with those of their tuning; run nothing");
  c->footer(
      "In a sweep, \"optimizer\": {\"learning_rate\": \"tuned\"} with \"tune\": "
      "{\"learning_rate\": [...], "
      "\"epochs\": n}\nchooses each system's rate by a search of its own; \"purpose\": "
      "\"boundary\" with a list "
      "of rates and\n\"steps\" looks for the largest stable one. A run that diverges is a result: "
      "it does not "
      "make the exit code 1.\n"
      "Over MPI, e.g. mpirun -n 4 sluice run --system 1f1b --workload fmnist_cnn --transport mpi: "
      "one process shows\nthe progress and writes the records. Every case of a sweep runs on the "
      "first so many processes as it has\nranks; a process that dies ends the job with a record of "
      "it, and --resume goes on.");
  c->add_option("--progress", run.progress, "auto, bar, plain or none (on stderr)")->capture_default_str();
  c->add_flag("--json", run.json, "Print the comparison as one JSON document");
  c->callback([&] { chosen = [&] { return run_command(run); }; });

  sluice::CompareArguments compare;
  c = app.add_subcommand("compare", "Compare the records of runs in a table");
  c->add_option("files", compare.files, "JSONL files")->required();
  c->add_option("--baseline", compare.baseline, "System the ratios are to (default single_device)");
  c->add_option("--metric", compare.metric,
                "throughput, memory, time_to_accuracy or final_metric: sorts the rows; "
                "largest_stable_rate: the divergence boundary instead")
      ->capture_default_str();
  c->add_flag("--json", compare.json, "One JSON document on stdout");
  c->callback([&] { chosen = [&] { return compare_command(compare); }; });

  sluice::ReportArguments report;
  c = app.add_subcommand("report", "Charts (SVG, PNG, PDF) and one offline report.html");
  c->add_option("files", report.files, "JSONL files; with --markdown, studies")->required();
  c->add_option("--out", report.out, "Folder (default plots/out/NAME; with --markdown, results/findings)");
  c->add_flag("--markdown", report.markdown,
              "Write the page of each study (results/reference/NAME.json) from its reference records; JSONL files "
              "beside one study replace its reference records first");
  c->callback([&] { chosen = [&] { return report_command(report); }; });

  sluice::ExportArguments exported;
  c = app.add_subcommand("export", "Records as a flat table on stdout");
  c->add_option("files", exported.files, "JSONL files")->required();
  c->add_option("--format", exported.format, "csv")->capture_default_str();
  c->add_flag("--curves", exported.curves, "The learning curves instead of one line a record");
  c->callback([&] { chosen = [&] { return export_command(exported); }; });

  sluice::NewArguments fresh;
  c = app.add_subcommand("new", "Write the skeleton of a new baseline: one file");
  c->add_option("what", fresh.what, "baseline")->required();
  c->add_option("name", fresh.name, "Name: lower-case letters, digits and _")->required();
  c->callback([&] { chosen = [&] { return new_command(fresh); }; });

  try {
    app.parse(argc, argv);
    return flushed(chosen());
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return flushed(app.exit(e));  // prints the help
    print_error(usage_error(app, e, {argv + 1, argv + argc}).what());
    return 2;
  } catch (const sluice::AgreedError& e) {  // all processes of a job throw it: one line is enough
    if (sluice::launch_from_environment().rank == 0) print_error(e.what());
    return 2;
  } catch (const sluice::InputError& e) {
    print_error(e.what());
    return 2;
  } catch (const sluice::RunError& e) {
    print_error(e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return 1;
  } catch (const std::system_error& e) {
    // fmt::print, where what it prints no longer fits into the buffer.
    const bool full = std::ferror(stdout) != 0;
    print_error((full ? "stdout: cannot be written: " : "internal error: ") +
                (full ? e.code().message() : std::string(e.what())));
    return 1;
  } catch (const std::exception& e) {
    print_error(std::string("internal error: ") + e.what());
    return 1;
  }
}
