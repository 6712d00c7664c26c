// The flags of every command, one function a command: together, so that what commands share is worded once.
#include "harness/cli/command_flags.h"

#include <set>

#include "harness/case/settings.h"
#include "harness/cli/commands.h"
#include "harness/cli/new_templates.h"
#include "harness/cli/trace_flags.h"
#include "harness/run/sweep_runner.h"
#include "plots/figure.h"
#include "results/compare.h"
#include "results/compare_columns.h"

namespace sluice {

namespace {

CLI::Option* add_progress(CLI::App* command, std::string& progress) {
  return add_defaulted(command, "--progress", progress, "NAME", "auto, bar, plain or none (on stderr)");
}

void add_filter(CLI::App* command, std::vector<std::string>& filter) {
  add_value(command, "--filter", filter, "KEY=VALUE",
            "Only records of these: KEY=A,B or KEY!=A; a field (system, workload, cluster, clock, ranks, seed, "
            "...), commit, rate (given or tuned), duration, optimizer, or an option's name; may be repeated");
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void add_trace(CLI::App* c, std::string& file, const std::string& what) {
  add_value(c, "--trace", file, "FILE",
            "Write " + what +
                " to this file, for ui.perfetto.dev and chrome://tracing: ops with stage, micro-batch "
                "and weight version, messages, and what every rank holds");
}

void add_html(CLI::App* c, std::string& file) {
  add_value(c, "--html", file, "FILE",
            "Write the same as an offline page with sliders for the times of ops and messages");
}

void add_list(CLI::App& app, Chosen& chosen) {
  const auto [c, a] = add_command(app, chosen, "list", "What there is, or all about one thing", list_command);
  add_value(c, "what", a->what, "",
            "systems, workloads, clusters, calibrations or sweeps (default: all); or the name of one of them: of a "
            "system its options, defaults, aliases and citation, and which parts were written from its paper, "
            "from released code, from the abstract or from memory, or are ours; or a file of a model, workload, "
            "costs, sweep or cluster: what it holds");
  add_json(c, a->json);
  add_examples(c,
               "  sluice list systems\n"
               "  sluice list zero_bubble      options, defaults, aliases, citation, what it was written from\n"
               "  sluice list config.json      layers, parameters, FLOP and bytes of a model file");
}

void add_torchtitan(CLI::App* command, std::string& file, const std::string& what) {
  add_value(command, "--torchtitan", file, "FILE",
            "Write torchtitan's settings for " + what +
                " to this file (TOML): degrees, batch, schedule, modules of every stage; and next to it the "
                "order, as .csv. For costs of import_pytorch.py");
}

bool of_plan(const Setting& setting) { return setting.of_plan; }

void add_plan(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "plan", "Partition a workload over a cluster and show the plan", plan_command);
  add_case_flags(c, a->flags, of_plan);
  for (const char* needed : {"--system", "--workload"}) c->get_option(needed)->required();
  add_json(c, a->json);
  c->add_flag(
      "--csv", a->csv,
      "The order of the plan's ops as PyTorch's compute-only table; of costs of import_pytorch.py, its cuts are "
      "module_fqns_per_model_part of --json");
  add_torchtitan(c, a->torchtitan, "the plan");
  add_trace(c, a->trace, "what the ranks do in an update");
  add_html(c, a->html);
  add_examples(c,
               "  sluice plan --system graphpipe --workload mmt --cluster summit_v100 --ranks 8\n"
               "  sluice plan -s gpipe,1f1b,zero_bubble -w vgg16 -c flat:4,memory=32GiB");
}

void add_advise(CLI::App& app, Chosen& chosen) {
  const auto [c, a] = add_command(
      app, chosen, "advise",
      "Which system to use: all of them, ranked on the virtual clock, and why the others are slower", advise_command);
  add_case_flags(c, a->flags, [](const Setting& s) {
    static const std::set<std::string> tried = {"system", "options",      "data_parallel",
                                                "tensor", "microbatches", "microbatch_sizes"};
    static const std::set<std::string> of_inference = {"task", "queue"};
    return of_plan(s) && !tried.contains(s.key) && !of_inference.contains(s.key);
  });
  c->get_option("--workload")->required();
  for (const auto& [flag, text] :
       {std::pair("--precision", " (advise, full-size models: mixed where every device states a 16-bit peak)"),
        std::pair("--costs", " (advise: calibrated where every device has a calibration)")})
    c->get_option(flag)->description(c->get_option(flag)->get_description() + text);
  add_value(c, "--memory", a->memory, "BYTES", "Of every device, instead of the cluster's: 80GiB");
  add_value(c, "-m,--microbatches", a->microbatches, "LIST",
            "Micro-batches per update to try: 4,8,16 (default: the workload's, and from one for every rank up)");
  add_value(c, "--tensor", a->tensor, "LIST",
            "Tensor-parallel degrees to try, for systems with a flush: 1,2,4 (default: 1, 2, 4 and 8, as far as "
            "they divide the ranks and the layers)");
  add_defaulted(c, "-s,--system", a->system, "NAMES", "Systems to try: a,b,c");
  c->add_flag(
      "--same-plan", a->same_plan,
      "Compare all systems on the same stages: of the pipelines that are found, those on which 1F1B is fastest");
  add_defaulted(
      c, "--seconds", a->seconds, "X",
      "Time limit of the search, after which no candidate begins; systems that were not fully searched are named");
  add_value(c, "--csv", a->csv, "FILE", "Write PyTorch's table of the winner's pipeline to this file");
  add_torchtitan(c, a->torchtitan, "the winner");
  add_trace(c, a->trace, "what the winner's ranks do in an update");
  add_html(c, a->html);
  add_json(c, a->json);
  add_examples(c,
               "  sluice advise --workload vgg16 --cluster flat:8 --memory 32GiB\n"
               "  sluice advise -w gpt_14.6b -c dgx_h100 --precision mixed --costs analytic\n"
               "  sluice advise -w gpt_1.3b -c dgx1_v100 -b 256 -m 16,32 --csv winner.csv");
}

void add_schedule(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "schedule", "Order of operations on a uniform chain, with makespan, bubbles and peaks",
                  schedule_command);
  add_value(c, "-s,--system", a->system, "NAMES", "System whose order to print; a,b,c: a table of several");
  add_value(c, "--from", a->from, "FILE",
            "Table of PyTorch (CSV, compute only or with communication): check, simulate and draw it; with "
            "--system, compare it");
  add_value(c, "-w,--workload", a->workload, "NAME",
            "With --from: a model or a file of costs, as of plan, whose layers become the table's stages; the plan, as "
            "of sluice plan --system file:FILE, which has more settings")
      ->needs(c->get_option("--from"))
      ->excludes(c->get_option("--system"));
  add_value(c, "-c,--cluster", a->cluster, "NAME",
            "With --workload: its devices, as of plan (default: flat:N for a table of N ranks)")
      ->needs(c->get_option("--workload"));
  add_defaulted(c, "-n,--ranks", a->ranks, "N", "Pipeline ranks");
  add_defaulted(c, "-m,--microbatches", a->microbatches, "N",
                "Micro-batches of one update, of each replica of the whole model (asynchronous systems: mini-batches "
                "of one run); with several systems: in total per system, over all its replicas");
  add_value(c, "--microbatch-sizes", a->microbatch_sizes, "LIST",
            "Samples of each micro-batch, in order, as in 3,1,3,1, of all replicas together, or drawn from a "
            "distribution, uniform:N,shortest=A,longest=B or lognormal:N,median=M,sigma=S[,longest=B], and with "
            ",seed=K others of it; --costs and --host-copy are then of one sample, and activations are counted in "
            "samples")
      ->excludes(c->get_option("--microbatches"));
  add_value(c, "--sample-lengths", a->sample_lengths, "LIST",
            "Lengths of the samples of an update, as in 9,7,3,3,1, or drawn as above: the first of the systems that "
            "forms micro-batches of them (dynapipe) does, for all systems. A micro-batch counts as its samples times "
            "the longest; "
            "--costs and --host-copy are then of a unit of length")
      ->excludes(c->get_option("--microbatches"))
      ->excludes(c->get_option("--microbatch-sizes"))
      ->excludes(c->get_option("--from"));
  add_defaulted(c, "--group-overhead", a->group_overhead, "N",
                "With --sample-lengths: units of length that are added to each micro-batch, whatever it holds")
      ->needs(c->get_option("--sample-lengths"));
  add_defaulted(c, "--group-limit", a->group_limit, "N",
                "With --sample-lengths: max padded size of a micro-batch, samples x longest sample; 0: no limit")
      ->needs(c->get_option("--sample-lengths"));
  add_value(c, "--chunks", a->chunks, "N",
            "Stages per rank, for systems that place several (default: the system's own)");
  add_defaulted(c, "--costs", a->costs, "F/I/W[/PAIR][+LATENCY]",
                "Seconds of F, I and W, and of a message, e.g. 1/1/1 or 10/12/8+1; of every stage its own: "
                "10/12/8,5/6/4+1. 10/12/8/27: with those of F and B of two micro-batches as an overlapped pair "
                "(default: their sum); pairs of other ops are scaled by the same ratio. Or a file of costs "
                "with a layer for each stage: costs.json, costs.json+1");
  add_defaulted(c, "--host-copy", a->host_copy, "SECONDS",
                "Seconds of one way to the host's memory, of what a micro-batch keeps in a stage, for systems that "
                "move activations there");
  add_value(c, "--costs-of", a->costs_of, "NAME",
            "What takes --costs: stage, or rank: the stages of a rank together, so that systems with several on a "
            "rank do the same work (default: stage; of several systems: rank)");
  add_set(c, a->set);
  add_json(c, a->json);
  c->add_flag("-t,--text", a->text, "Draw what every rank does over time");
  c->add_flag("--versions", a->versions, "Show the weight version that every op reads: 0F3@2");
  c->add_flag("--csv", a->csv,
              "The order as PyTorch's compute-only table, for _PipelineScheduleRuntime._load_csv and torchtitan's "
              "pipeline_parallel_schedule_csv");
  c->add_flag(
      "--messages", a->messages,
      "With --csv: PyTorch's table with sends and receives (_load_csv's format compute_comms), in an order that "
      "ends also where a send waits for its receive");
  add_trace(c, a->trace, "what the ranks do");
  add_html(c, a->html);
  for (const char* flag : {"--ranks", "--microbatches", "--chunks"})
    c->get_option(flag)->excludes(c->get_option("--from"));  // the table has its own
  for (const char* flag :
       {"--microbatch-sizes", "--costs", "--host-copy", "--costs-of", "--set", "--text", "--versions", "--messages"})
    c->get_option(flag)->excludes(c->get_option("--workload"));  // of stages without a model
  add_examples(c,
               "  sluice schedule --system 1f1b --ranks 4 --microbatches 8 --text\n"
               "  sluice schedule -s gpipe,1f1b,zero_bubble -n 4 -m 8        which is fastest, for what memory\n"
               "  sluice schedule -s 1f1b,dynapipe --microbatch-sizes 3,1,3,1,3,1,3,1 --costs 1/1/1\n"
               "  sluice schedule -s 1f1b,dynapipe -n 4 --sample-lengths 9,7,7,3,3,2,1 --group-overhead 4\n"
               "  sluice schedule -s 1f1b,dynapipe -n 4 --sample-lengths lognormal:64,median=256,sigma=0.8\n"
               "  sluice schedule -s pipedream -n 3 -m 6 --versions\n"
               "  sluice schedule -s zero_bubble -O variant=v -n 4 -m 8 --csv > zbv.csv\n"
               "  sluice schedule --from zbv.csv --csv --messages            where its sends and receives stand\n"
               "  sluice schedule --from zbv.csv --costs 10/12/8+1 -s 1f1b,interleaved_1f1b\n"
               "  sluice schedule --from zbv.csv --workload net.costs.json   its stages on a model's costs");
}

void add_verify(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "verify", "Replay weight-version cases through the real executor", verify_command);
  add_value(c, "--cases", a->cases, "FILE", "File of cases, e.g. harness/tests/data/weights.json")->required();
  add_defaulted(c, "--tolerance", a->tolerance, "X", "Largest absolute error of a weight or loss");
  add_value(c, "--only", a->only, "NAME...", "Names, or prefixes ending in '*'; the others are left out");
  add_json(c, a->json);
  add_examples(c, "  sluice verify --cases harness/tests/data/weights.json --only 'pipedream*'");
}

void add_profile(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "profile", "Measure a workload's cost graph on this machine", profile_command);
  add_case_flags(c, a->flags, [](const Setting& s) {
    static const std::set<std::string> measured = {"workload", "batch", "microbatches", "device", "optimizer"};
    return measured.contains(s.key);
  });
  c->get_option("--workload")->required();
  add_value(c, "--neighbours", a->neighbours, "N",
            "Busy ranks next to the measured one (default: one on every other core)");
  c->add_flag(
      "--co-run", a->co_run,
      "In place of costs: how much slower stages are under loads on their core or another, as rows for DynPipe's "
      "forest (its option forest), and the forest's error on loads that it has not seen; half a minute");
  add_defaulted(c, "--seconds", a->seconds, "X", "With --co-run: seconds of each load, about");
  add_value(c, "--published", a->published, "FILE",
            "With --co-run: published co-location slowdowns that the forest learns from, too (Gavel's .csv)");
  add_value(c, "-o,--out", a->out, "FILE", "File to write (default: stdout)");
  add_examples(c,
               "  sluice profile --workload fmnist_cnn --batch 128 --microbatches 8 --out cnn.json\n"
               "  sluice profile --workload fmnist_cnn --co-run --out co_runs.json\n"
               "  mpirun -n 2 sluice profile --workload fmnist_cnn\n"
               "The last one measures only what messages and collectives between two processes cost; one process\n"
               "starts two others for it, where there is mpirun.\n"
               "The profile is also stored, in .cache/profiles or $SLUICE_PROFILE_CACHE, for runs with measured\n"
               "costs. These measure the machine's arithmetic, memory and message speed first, in 0.8 seconds,\n"
               "and the profile anew where one differs by more than 5 % from that of the stored profile.");
}

void add_validate(CLI::App& app, Chosen& chosen) {
  const auto [c, a] = add_command(app, chosen, "validate",
                                  "Compare the virtual clock with the wall clock on this machine", validate_command);
  add_value(c, "--filter", a->filter, "TEXT", "Only cases whose label holds this text");
  c->add_flag("--quick", a->quick, "A case of each kind, in two short rounds");
  c->add_flag("--list", a->list, "Print the cases' labels; run nothing");
  add_defaulted(c, "--rounds", a->rounds, "N", "How often profiles are measured and each case is run on both clocks");
  add_defaulted(c, "--seconds", a->seconds, "S", "Approximate seconds per case and round");
  add_defaulted(c, "--device", a->device, "NAME",
                "cpu or cuda: what ranks compute on; ranks that share a GPU compute in turn");
  add_value(c, "-n,--ranks", a->ranks, "N", "Ranks of every case (default: the cores or the GPUs, 2 to 8)");
  c->add_flag("--check", a->check,
              "Exit code 1 unless the median is within 3 %, the 90th percentile within 8 % and 99 % of the order kept");
  c->add_flag("--threads-only", a->threads_only, "No cases over MPI");
  add_value(c, "--records", a->records, "FILE...", "Compare these records of an earlier validation; run nothing");
  add_value(c, "--chart", a->chart, "FILE", "Write predicted over measured times as a Vega-Lite chart");
  add_value(c, "-o,--out", a->out, "FILE", "Records (default: results/runs/validation.jsonl)");
  add_progress(c, a->progress);
  add_json(c, a->json);
  add_examples(c, "  sluice validate --quick --threads-only");
}

void add_run(CLI::App& app, Chosen& chosen) {
  const auto [c, a] = add_command(app, chosen, "run", "Run a sweep, or one case; a record per case", run_command);
  c->set_help_flag();
  add_value(c, "sweep", a->sweep, "", "Sweep file, or the name of one (see sluice list sweeps)");
  add_case_flags(
      c, a->flags, [](const Setting&) { return true; }, true);
  const std::string heading = "Running, of a sweep or a case";
  add_value(c, "-o,--out", a->out, "FILE", "Records (default: results/runs/NAME.jsonl)")->group(heading);
  CLI::Option* resume =
      c->add_flag("--resume", a->resume,
                  "Skip finished cases and failures that would repeat (on the virtual clock: out of memory, "
                  "unsupported); retry failed and timed-out ones")
          ->group(heading);
  c->add_flag(
       "--again", a->again,
       "Run finished cases again; the last result counts. Without --resume or --again, finished cases are an error")
      ->excludes(resume)
      ->group(heading);
  add_value(c, "--jobs", a->jobs, "N",
            "How many cases of the virtual clock run at the same time (default: one per core)")
      ->check([](const std::string& jobs) {
        if (whole_number_in(jobs).value_or(0) < 1) throw InputError("--jobs", "is " + jobs, "give 1 or more");
        return std::string();
      })
      ->group(heading);
  add_trace(c, a->trace, "what the ranks of a single case do, as measured or simulated,");
  add_html(c, a->html);
  add_value(c, "--checkpoints", a->checkpoints, "FOLDER", "Keep the state of unfinished cases there and go on from it")
      ->group(heading);
  add_value(c, "--timelines", a->timelines, "WHICH",
            fmt::format("Records that keep the timeline of an update: all; best, of each system's fastest record "
                        "in a comparison; or none (default: all of up to {} cases, otherwise none)",
                        kSmallSweep))
      ->group(heading);
  add_value(c, "--shard", a->shard, "i/n", "Every n-th case from the i-th, for job arrays; a tuning stays whole")
      ->group(heading);
  c->add_flag("--dry-run", a->dry_run,
              "Check and list the cases, with those of tunings, and say how long they take; run nothing")
      ->group(heading);
  add_value(c, "--inject-failure", a->inject_failure, "RANK:UPDATE",
            "That rank fails in that update, to see what happens")
      ->group(heading);
  add_progress(c, a->progress)->group(heading);
  c->add_flag("-j,--json", a->json,
              "Print the comparison as one JSON document; with --dry-run: the cases, as a list for \"grid\" of a sweep")
      ->group(heading);
  c->set_help_flag("-h,--help", "Print this help message and exit")->group(heading);
  add_examples(c,
               "  sluice run quick                                                    a sweep of harness/sweeps\n"
               "  sluice run -s gpipe,1f1b -w fmnist_cnn -n 2                         two systems, on real data\n"
               "  sluice run -s 1f1b -w vgg16 --clock virtual -c flat:4 --no-train    times only\n"
               "  mpirun -n 4 sluice run -s 1f1b -w fmnist_cnn --transport mpi\n"
               "In a sweep, \"optimizer\": {\"learning_rate\": \"tuned\"} with \"tune\": {\"learning_rate\": [...],\n"
               "\"epochs\": n} chooses each system's rate by a search of its own; \"purpose\": \"boundary\" with a\n"
               "list of rates and \"steps\" looks for the largest stable one. A run that diverges is a result: it\n"
               "does not make the exit code 1.\n"
               "A checkpoint is kept after each evaluation of a drained pipeline.\n"
               "Over MPI one process shows the progress and writes the records. Every case of a sweep runs on the\n"
               "first processes, one per rank; a process that dies ends the job with a record of it, and\n"
               "--resume goes on.");
}

void add_compare(CLI::App& app, Chosen& chosen) {
  const auto [c, a] = add_command(app, chosen, "compare", "Compare the records of runs in a table", compare_command);
  add_value(c, "files", a->files, "", "JSONL files")->required();
  add_value(c, "--baseline", a->baseline, "NAME", "System the ratios are to (default: single_device)");
  add_defaulted(c, "--metric", a->metric, "NAME",
                "What sorts the rows, best first: " + list_of(compare_metric_names()) +
                    "; largest_stable_rate shows the divergence boundary instead; staleness_cost how many more updates "
                    "stale weights need to the target, and DynPipe's lambda");
  add_filter(c, a->filter);
  add_value(c, "--columns", a->columns, "LIST", "Columns of the table: " + list_of(compare_column_names()))
      ->delimiter(',');
  add_value(c, "--sort", a->sort, "NAME", "Column that sorts the rows, smallest first; -NAME: largest first");
  add_defaulted(c, "--format", a->format, "NAME", "text, markdown, latex, csv (all figures, one line per row) or json");
  add_value(c, "--pivot", a->pivot, "ROWS,COLUMNS",
            "One table of the metric: a row for each value of the first setting, a column for each of the second: "
            "two of system, workload, cluster, ranks, batch, microbatches, or options of systems")
      ->delimiter(',');
  add_defaulted(c, "--best", a->best, "NAME", "With --pivot and latex: bold: the best of each column; none");
  add_value(c, "--caption", a->caption, "TEXT", "With --pivot and latex: caption of the table");
  add_value(c, "--label", a->label, "NAME", "With --pivot and latex: its label, as in tab:throughput");
  add_value(c, "--against", a->against, "FILE",
            "Stored records: show what changed since; exit code 1 where a run is worse or missing");
  add_defaulted(c, "--tolerance", a->tolerance, "SHARE", "With --against: ignore changes up to this share");
  add_json(c, a->json);
  add_examples(c,
               "  sluice compare results/runs/quick.jsonl --metric memory\n"
               "  sluice compare new.jsonl --filter ranks=4 --columns system,throughput,bubble --format latex\n"
               "  sluice compare new.jsonl --pivot system,microbatches --format latex --best bold\n"
               "  sluice compare new.jsonl --against stored.jsonl --tolerance 2%");
}

void add_report(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "report", "One offline report.html, and its charts as files", report_command);
  add_value(c, "files", a->files, "", "JSONL files; with --markdown, studies")->required();
  add_value(c, "-o,--out", a->out, "FOLDER",
            "Folder (default: plots/out/NAME; with --markdown, next to the study, or findings for those in reference)");
  add_filter(c, a->filter);
  add_value(c, "--title", a->title, "TEXT", "Heading of the page (default: the title of the sweep in harness/sweeps)");
  add_value(c, "--formats", a->formats, "LIST", "Files of every chart: some of svg,png,pdf (default: svg)");
  c->add_flag("--claims", a->claims, "Add the papers' figures (results/claims)");
  c->add_flag("--markdown", a->markdown,
              "Write the page of each study (results/reference/NAME.json) from its reference records; JSONL files "
              "after one study replace its reference records first");
  add_examples(c,
               "  sluice report results/runs/quick.jsonl --out plots/out/quick\n"
               "  sluice report results/runs/quick.jsonl --formats svg,png,pdf\n"
               "  sluice report big.jsonl --filter workload=vgg16 --filter ranks=4,8\n"
               "  sluice report --markdown results/reference/*.json");
}

void add_leaderboard(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "leaderboard", "Rank the systems by the standard sweep", leaderboard_command);
  add_value(c, "files", a->files, "", "JSONL files of the sweep (default: the stored records)");
  add_value(c, "--add", a->add, "SYSTEM", "Run the sweep's simulated cases for this system first, and rank it too");
  CLI::Option* add = c->get_option("--add");
  c->add_flag("--train", a->train, "With --add: its trainings, too")->needs(add);
  c->add_flag("--wall", a->wall,
              "With --add: the cases on the wall clock, too, of all systems (40 idle minutes): times of "
              "another machine do not compare")
      ->needs(add);
  add_value(c, "-o,--out", a->out, "FILE", "With --add: records (default: results/runs/leaderboard-SYSTEM.jsonl)")
      ->needs(add);
  c->add_flag("--resume", a->resume, "With --add: skip finished cases")->needs(add);
  add_value(c, "--html", a->html, "FILE", "Write the leaderboard as one offline page");
  add_value(c, "--board", a->board, "FILE", "Columns and texts (default: results/leaderboard.json)");
  c->add_flag("--write", a->write,
              "Store the records, if they are not the stored ones, and write results/leaderboard.md");
  add_progress(c, a->progress);
  add_examples(c,
               "  sluice leaderboard                                       the stored records\n"
               "  sluice leaderboard --add my_system                       where a system of your own lands\n"
               "  sluice leaderboard --html plots/out/leaderboard.html");
}

void add_figure(CLI::App& app, Chosen& chosen) {
  const auto [c, a] = add_command(app, chosen, "figure", "One figure for a paper, in an exact size", figure_command);
  add_value(c, "kind", a->kind, "", "What it shows: " + list_of(kFigureKinds))->required();
  add_value(c, "files", a->files, "", "JSONL files")->required();
  add_filter(c, a->filter);
  add_defaulted(c, "--width", a->width, "LENGTH", "Width of the whole figure, in in, cm, mm or pt; 7in: both columns");
  add_value(c, "--height", a->height, "LENGTH", "Height of the whole figure (default: as the kind needs)");
  add_defaulted(c, "--font-size", a->font_size, "POINTS", "Size of all text, in points");
  add_defaulted(c, "--title", a->title, "TEXT", "Title inside the figure; none: no title");
  add_value(c, "--systems", a->systems, "LIST", "Systems to show: a,b,c (default: all)")->delimiter(',');
  add_defaulted(c, "--order", a->order, "NAME", "name: by title; value: best first; given: as in --systems");
  add_value(c, "--names", a->names, "LIST", "Other names of systems: gpipe=Ours,one_f_one_b=Baseline")->delimiter(',');
  add_defaulted(c, "--format", a->format, "LIST",
                "Some of pdf, pgf (for LaTeX's \\input, in the document's font), svg, png");
  add_value(c, "-o,--out", a->out, "FOLDER", "Folder of the files, KIND.pdf and others (default: this folder)");
  add_examples(c,
               "  sluice figure throughput runs.jsonl --filter ranks=8 --systems gpipe,1f1b --order given\n"
               "  sluice figure timelines runs.jsonl --width 7in --format pdf,pgf --out figures\n"
               "A kind needs of a record: throughput and scaling steps after the warm-up; pareto also peak_bytes;\n"
               "time-to-accuracy a target and evaluations; loss a curve; bubbles observed.bubble_ratio;\n"
               "timelines and memory a timeline, which reference records (results/reference) do not keep.");
}

void add_reproduce(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "reproduce", "Rerun what papers published and compare", reproduce_command);
  add_value(c, "papers", a->papers, "", "Papers, by their file in results/claims");
  c->add_flag("--all", a->all, "All of them");
  add_json(c, a->json);
  c->add_flag("--write", a->write, "Store the outcomes and write the pages of results/claims");
  c->add_flag("--mutate", a->mutate,
              "Rerun figures recorded as reproduced with changed inputs (costs x 1.3, one rank more, another order, "
              "as the scenario has them) and list those that stay reproduced under every change");
  add_value(c, "--claims", a->claims, "FOLDER", "Folder of the claims (default: results/claims)");
  add_examples(c,
               "  sluice reproduce zero_bubble\n"
               "  sluice reproduce --all\n"
               "  sluice reproduce zero_bubble --mutate\n"
               "Figures are counted by kind: headline, end to end, measured times, formula, count, authors' program.\n"
               "Exit code 1 if a figure that is recorded as reproduced no longer is; with --mutate, if a figure stays\n"
               "reproduced under every change.");
}

void add_export(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "export", "Records as a flat table on stdout, or a plan as traces for other simulators",
                  export_command);
  add_value(c, "files", a->files, "", "JSONL files");
  add_defaulted(c, "--format", a->format, "NAME",
                "csv, jsonl (one JSON object per line), or chakra: the ops and messages of a plan as MLCommons Chakra "
                "execution traces, which ASTRA-sim replays");
  c->add_flag("--curves", a->curves, "The learning curves instead of one line per record");
  c->add_flag("--per-rank", a->ranks, "One line per rank of each record: its memory by kind and what it sends");
  add_filter(c, a->filter);
  add_value(c, "-o,--out", a->out, "PREFIX",
            "Of chakra: PREFIX.0.et, PREFIX.1.et, ...; groups of ranks: PREFIX.groups.json");
  add_case_flags(c, a->plan, of_plan);
  add_examples(c,
               "  sluice export results/runs/quick.jsonl > quick.csv\n"
               "  sluice export quick.jsonl --filter clock=wall --per-rank --format jsonl\n"
               "  sluice export --format chakra -s 1f1b -w vgg16 -c flat:4 --out vgg16_1f1b");
}

void add_new(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "new", "Write a file to start from: a baseline, a workload or a cluster", new_command);
  add_value(c, "what", a->what, "", "baseline, workload or cluster")->required();
  add_value(c, "name", a->name, "", "Name: lower-case letters, digits and _")->required();
  std::string kinds;
  for (const BaselineKind& k : baseline_kinds()) kinds += (kinds.empty() ? "" : "; ") + k.kind + ": " + k.what;
  add_value(c, "--kind", a->kind, "NAME",
            "Of a baseline: " + kinds +
                " (default: flush). Of a workload: code: C++, compiled by the next build; file: JSON, needs no build "
                "(default: code)");
  add_value(c, "--like", a->like, "NAME", "The workload that a workload's file is to be a copy of");
  add_value(c, "--folder", a->folder, "FOLDER",
            "Where the file goes (default: baselines, workloads/models or workloads/clusters; of a baseline the "
            "first folder of SLUICE_EXTRA_SYSTEMS that Sluice was built with; of an installed sluice the current "
            "folder)");
  add_examples(c,
               "  sluice new baseline my_system\n"
               "  sluice new baseline my_system --kind asynchronous\n"
               "  sluice new baseline my_system --folder ../my_systems      in a repository of your own\n"
               "  sluice new workload my_vit --like fmnist_vit\n"
               "  sluice new cluster my_machines");
}

void add_check(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "check",
                  "Test a system against the contract: its faults, with drawings, and its rejections", check_command);
  add_value(c, "systems", a->systems, "", "Systems: a,b,c or '*'")->required();
  add_defaulted(c, "--seconds", a->seconds, "X", "For one problem; what takes longer is taken to be endless");
  add_examples(c, "  sluice check my_system");
}

void add_completion(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "completion", "A script that completes commands in bash or zsh", completion_command);
  add_value(c, "shell", a->shell, "", "bash or zsh")->required();
  add_examples(c,
               "  eval \"$(sluice completion bash)\"      in ~/.bashrc\n"
               "  eval \"$(sluice completion zsh)\"       in ~/.zshrc, after compinit");
}

}  // namespace

void add_commands(CLI::App& app, Chosen& chosen) {
  for (const auto add : {add_list, add_advise, add_plan, add_schedule, add_trace_command, add_verify, add_profile,
                         add_validate, add_run, add_compare, add_report, add_figure, add_leaderboard, add_reproduce,
                         add_export, add_new, add_check, add_completion})
    add(app, chosen);
}

std::string new_name_of(const std::string& command, const std::string& flag) {
  if (command == "plan" && flag == "--devices") return "--ranks";
  if ((command == "plan" || command == "profile") && flag == "--micro-batch")
    return "--microbatches, the number of micro-batches per update";
  return "";
}

}  // namespace sluice
