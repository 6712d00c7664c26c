#include "harness/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>

#include "harness/base/error.h"
#include "harness/case/settings.h"
#include "harness/cli/commands.h"

namespace sluice {

namespace {

constexpr std::size_t kHelpWidth = 100, kFlagWidth = 28;

// An option's flag and its description beside it, in lines of at most kHelpWidth characters.
class WrappedHelp : public CLI::Formatter {
 public:
  WrappedHelp() { column_width(kFlagWidth); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string flag = "  " + make_option_name(option, is_positional) + make_option_opts(option);
    const bool fits = flag.size() < kFlagWidth;
    flag += fits ? std::string(kFlagWidth - flag.size(), ' ') : "\n" + std::string(kFlagWidth, ' ');
    return flag + wrapped(description_of(option)) + "\n";
  }

  // Without the second of the two empty lines that CLI11 puts between groups.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, name, mode), "\n\n\n", "\n\n");
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 || option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }

 private:
  static std::string description_of(const CLI::Option* option) {
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " (default: " + option->get_default_str() + ")";
    if (option->get_required() && option->nonpositional()) text += " (required)";
    return text;
  }

  static std::string wrapped(const std::string& text) {
    std::istringstream words(text);
    std::string result;
    std::size_t column = kFlagWidth;
    for (std::string word; words >> word;) {
      if (column > kFlagWidth && column + 1 + word.size() > kHelpWidth) {
        result += "\n" + std::string(kFlagWidth, ' ');
        column = kFlagWidth;
      }
      if (column > kFlagWidth) result += " ", ++column;
      result += word;
      column += word.size();
    }
    return result;
  }
};

// The command that the arguments choose, once they are parsed.
using Chosen = std::function<int()>;

// A command whose options fill in `arguments`, which live as long as the command may still run.
template <class Arguments>
CLI::App* add_command(CLI::App& app, Chosen& chosen, const std::string& name, const std::string& help,
                      int (*run)(const Arguments&), const std::shared_ptr<Arguments>& arguments) {
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([&chosen, run, arguments] { chosen = [run, arguments] { return run(*arguments); }; });
  return command;
}

void add_set(CLI::App* command, std::vector<std::string>& set) {
  command->add_option("--set", set, "Option of the system (see sluice list systems); may be repeated")
      ->type_name("KEY=VALUE");
}

void add_json(CLI::App* command, bool& json) { command->add_flag("--json", json, "One JSON document on stdout"); }

void add_list(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<ListArguments>();
  CLI::App* c =
      add_command(app, chosen, "list", "What there is: systems, workloads, clusters, sweeps", list_command, a);
  c->add_option("what", a->what, "systems, workloads, clusters or sweeps (default: all)")->type_name("");
  add_json(c, a->json);
}

void add_plan(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<PlanArguments>();
  CLI::App* c =
      add_command(app, chosen, "plan", "Partition a workload over a cluster and show the plan", plan_command, a);
  c->add_option("--system", a->system, "System whose planner to use")->required()->type_name("NAME");
  c->add_option("--workload", a->workload,
                "Workload (see sluice list workloads), or a file of a published profile: CostGraph, Piper or "
                "dnn-partitioning JSON, PipeDream graph text, PipeEdge YAML (FILE#MODEL)")
      ->required()
      ->type_name("NAME");
  c->add_option("--cluster", a->cluster,
                "Name (see sluice list clusters), JSON file, or "
                "flat:N[,bandwidth=25GiB/s][,latency=5us][,memory=16GiB][,speed=1]")
      ->capture_default_str()
      ->type_name("CLUSTER");
  c->add_option("--devices", a->devices, "How many of its devices to use (default: all)")->type_name("N");
  c->add_option("--batch", a->batch, "Samples per update (default: the workload's)")->type_name("N");
  c->add_option("--micro-batch", a->micro_batch, "Samples per micro-batch (default: the workload's)")->type_name("N");
  c->add_option("--costs", a->costs,
                "analytic, profile (measured on this machine) or a file of sluice profile; of a published profile: "
                "raw keeps its numbers as the authors' program takes them")
      ->capture_default_str()
      ->type_name("COSTS");
  add_set(c, a->set);
  add_json(c, a->json);
}

void add_schedule(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<ScheduleArguments>();
  CLI::App* c =
      add_command(app, chosen, "schedule", "Order of operations on a uniform chain, with makespan, bubbles and peaks",
                  schedule_command, a);
  c->add_option("--system", a->system, "System whose order to print")->required()->type_name("NAME");
  c->add_option("--ranks", a->ranks, "Pipeline ranks")->capture_default_str()->type_name("N");
  c->add_option("--microbatches", a->microbatches,
                "Micro-batches of one update, of each replica of the whole model (asynchronous systems: mini-batches "
                "of one run)")
      ->capture_default_str()
      ->type_name("N");
  c->add_option("--chunks", a->chunks, "Stages per rank, for systems that place several (default: the system's own)")
      ->type_name("N");
  c->add_option("--costs", a->costs, "Seconds of F, I and W of one stage and of a message, e.g. 1/1/1 or 10/12/8+1")
      ->capture_default_str()
      ->type_name("F/I/W[+LATENCY]");
  add_set(c, a->set);
  add_json(c, a->json);
  c->add_flag("--text", a->text, "Draw what every rank does over time");
  c->add_option("--trace", a->trace, "Write a Chrome/Perfetto trace to this file")->type_name("FILE");
}

void add_verify(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<VerifyArguments>();
  CLI::App* c =
      add_command(app, chosen, "verify", "Replay weight-version cases through the real executor", verify_command, a);
  c->add_option("--cases", a->cases, "File of cases, e.g. harness/tests/data/weights.json")
      ->required()
      ->type_name("FILE");
  c->add_option("--tolerance", a->tolerance, "Largest absolute error of a weight or loss")
      ->capture_default_str()
      ->type_name("X");
  c->add_option("--only", a->only, "Names, or prefixes ending in '*'; the others are left out")->type_name("NAME...");
  add_json(c, a->json);
}

void add_profile(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<ProfileArguments>();
  CLI::App* c =
      add_command(app, chosen, "profile", "Measure a workload's cost graph on this machine", profile_command, a);
  c->add_option("--workload", a->workload, "Workload (see sluice list workloads)")->required()->type_name("NAME");
  c->add_option("--micro-batch", a->micro_batch, "Samples per micro-batch (default: the workload's)")->type_name("N");
  c->add_option("--device", a->device, "cpu or cuda")->capture_default_str()->type_name("NAME");
  c->add_option("--out", a->out, "File to write (default: stdout)")->type_name("FILE");
}

// How help names the value of a setting's flag.
std::string value_name(const Setting& setting) {
  return setting.value.type == SettingValue::Type::number ? "N" : "NAME";
}

// A flag for each setting of a single case, under the heading of its group.
void add_settings(CLI::App* command, const std::shared_ptr<RunArguments>& a) {
  static const std::pair<HelpGroup, const char*> headings[] = {{HelpGroup::experiment, "One case instead of a sweep"},
                                                               {HelpGroup::machine, "Where it runs"},
                                                               {HelpGroup::parallelism, "Ranks and replicas"},
                                                               {HelpGroup::batches, "Batches and length"},
                                                               {HelpGroup::training, "Training"}};
  for (const auto& [group, heading] : headings) {
    for (const Setting& setting : settings()) {
      if (!setting.has_flag || setting.group != group) continue;
      command
          ->add_option_function<std::string>(
              flag_of(setting), [a, key = setting.key](const std::string& value) { a->single[key] = value; },
              help_of(setting))
          ->type_name(value_name(setting))
          ->group(heading);
    }
    if (group != HelpGroup::experiment) continue;
    add_set(command, a->set);
    command->get_option("--set")->group(heading);
  }
}

void add_run(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<RunArguments>();
  CLI::App* c = add_command(app, chosen, "run", "Run a sweep, or one case; a record per case", run_command, a);
  c->set_help_flag();
  c->add_option("sweep", a->sweep, "Sweep file, or the name of one (see sluice list sweeps)")->type_name("");
  add_settings(c, a);
  const std::string heading = "Running, of a sweep or a case";
  c->add_option("--out", a->out, "Records (default: results/runs/NAME.jsonl)")->type_name("FILE")->group(heading);
  c->add_flag("--resume", a->resume, "Skip what has a result there already (ok or diverged)")->group(heading);
  c->add_option("--checkpoints", a->checkpoints, "Keep the state of unfinished cases there and go on from it")
      ->type_name("FOLDER")
      ->group(heading);
  c->add_option("--shard", a->shard, "Every n-th case from the i-th, for job arrays; a tuning stays whole")
      ->type_name("i/n")
      ->group(heading);
  c->add_flag("--dry-run", a->dry_run, "Check and list the cases, with those of tunings; run nothing")->group(heading);
  c->add_option("--inject-failure", a->inject_failure, "That rank fails in that update, to see what happens")
      ->type_name("RANK:UPDATE")
      ->group(heading);
  c->add_option("--progress", a->progress, "auto, bar, plain or none (on stderr)")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(heading);
  c->add_flag("--json", a->json, "Print the comparison as one JSON document")->group(heading);
  c->set_help_flag("-h,--help", "Print this help message and exit")->group(heading);
  c->footer(
      "In a sweep, \"optimizer\": {\"learning_rate\": \"tuned\"} with \"tune\": {\"learning_rate\": [...],\n"
      "\"epochs\": n} chooses each system's rate by a search of its own; \"purpose\": \"boundary\" with a\n"
      "list of rates and \"steps\" looks for the largest stable one. A run that diverges is a result: it\n"
      "does not make the exit code 1.\n"
      "A checkpoint is kept after each evaluation of a drained pipeline.\n"
      "Over MPI, e.g. mpirun -n 4 sluice run --system 1f1b --workload fmnist_cnn --transport mpi: one\n"
      "process shows the progress and writes the records. Every case of a sweep runs on the first so many\n"
      "processes as it has ranks; a process that dies ends the job with a record of it, and --resume goes\n"
      "on.");
}

void add_compare(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<CompareArguments>();
  CLI::App* c = add_command(app, chosen, "compare", "Compare the records of runs in a table", compare_command, a);
  c->add_option("files", a->files, "JSONL files")->required()->type_name("");
  c->add_option("--baseline", a->baseline, "System the ratios are to (default: single_device)")->type_name("NAME");
  c->add_option("--metric", a->metric,
                "What sorts the rows: throughput, memory, time_to_accuracy or final_metric; largest_stable_rate: the "
                "divergence boundary instead")
      ->capture_default_str()
      ->type_name("NAME");
  add_json(c, a->json);
}

void add_report(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<ReportArguments>();
  CLI::App* c =
      add_command(app, chosen, "report", "Charts (SVG, PNG, PDF) and one offline report.html", report_command, a);
  c->add_option("files", a->files, "JSONL files; with --markdown, studies")->required()->type_name("");
  c->add_option("--out", a->out, "Folder (default: plots/out/NAME; with --markdown, results/findings)")
      ->type_name("FOLDER");
  c->add_flag("--markdown", a->markdown,
              "Write the page of each study (results/reference/NAME.json) from its reference records; JSONL files "
              "beside one study replace its reference records first");
}

void add_export(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<ExportArguments>();
  CLI::App* c = add_command(app, chosen, "export", "Records as a flat table on stdout", export_command, a);
  c->add_option("files", a->files, "JSONL files")->required()->type_name("");
  c->add_option("--format", a->format, "csv")->capture_default_str()->type_name("NAME");
  c->add_flag("--curves", a->curves, "The learning curves instead of one line a record");
}

void add_new(CLI::App& app, Chosen& chosen) {
  const auto a = std::make_shared<NewArguments>();
  CLI::App* c = add_command(app, chosen, "new", "Write the skeleton of a new baseline: one file", new_command, a);
  c->add_option("what", a->what, "baseline")->required()->type_name("");
  c->add_option("name", a->name, "Name: lower-case letters, digits and _")->required()->type_name("");
}

std::string help_advice(const CLI::App* command) {
  return "see sluice " + (command ? command->get_name() + " " : "") + "--help";
}

// What the parser objects to, in our form: "schedule: unknown flag '--rank'; did you mean '--ranks'?"
InputError usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
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
            flag ? help_advice(nullptr) : suggestion(arguments.front(), commands)};
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> flags;
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      const std::string name = arguments[i].substr(0, arguments[i].find('='));
      if (name.starts_with("--") && std::ranges::count(flags, name) == 0)
        return {command->get_name(), "unknown flag '" + name + "'", suggestion(name, flags)};
    }
  }
  std::string what = error.what();
  while (what.ends_with('\n') || what.ends_with('.')) what.pop_back();
  return {command->get_name(), what, help_advice(command)};
}

}  // namespace

std::function<int()> parse_command_line(int argc, char** argv) {
  CLI::App app{
      "Sluice: a benchmarking and reproduction harness for pipeline-parallel training.\n"
      "Runs published systems under one harness: throughput, memory, time to accuracy.\n"};
  app.name("sluice");
  app.formatter(std::make_shared<WrappedHelp>());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  sluice run harness/sweeps/quick.json        the quick sweep\n"
      "  sluice schedule --system 1f1b --ranks 4 --microbatches 8 --text\n"
      "  sluice run --system gpipe --workload fmnist_cnn --ranks 2\n"
      "Exit codes: 0 done; 1 a run or a check failed; 2 bad usage or bad input.");
  Chosen chosen;
  for (const auto add : {add_list, add_plan, add_schedule, add_verify, add_profile, add_run, add_compare, add_report,
                         add_export, add_new})
    add(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw usage_error(app, e, {argv + 1, argv + argc});
    app.exit(e);  // prints the help
    return [] { return 0; };
  }
  return chosen;
}

}  // namespace sluice
