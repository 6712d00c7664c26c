#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/output_file.h"
#include "harness/base/run_program.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/cli/commands.h"
#include "harness/cli/gpu_program.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/session.h"
#include "harness/run/validate.h"
#include "plots/charts.h"
#include "results/store.h"
#include "results/validation.h"

namespace sluice {

static bool can_start_processes() { return mpi_built() && run_program({"mpirun", "--version"}).ok(); }

// One for each core or GPU, 2 to 8.
static int default_ranks(DeviceKind device) {
  const std::size_t parallel =
      device == DeviceKind::cuda ? describe_cuda()["devices"].size() : std::thread::hardware_concurrency();
  return static_cast<int>(std::clamp<std::size_t>(parallel, 2, 8));
}

int validate_command(const ValidateArguments& a) {
  if (a.ranks && *a.ranks < 1) throw InputError("--ranks", "must be at least 1");
  if (a.rounds < 1 || a.rounds > 100) throw InputError("--rounds", "must be from 1 to 100");
  if (!(a.seconds > 0 && a.seconds <= 600)) throw InputError("--seconds", "must be above 0, at most 600");
  std::optional<OutputFile> chart;
  if (!a.chart.empty())
    chart.emplace(a.chart, "a chart of sluice validate", [](const std::string& text) {
      return text.starts_with("{\n \"$schema\"") && text.find(kValidationChartTitle) != text.npos;
    });
  std::vector<Record> records;
  std::vector<std::string> left_out;
  if (!a.records.empty()) {
    for (const std::string& file : a.records) {  // every round counts, not only the last
      const std::vector<Record> of_file = read_records(file).records;
      records.insert(records.end(), of_file.begin(), of_file.end());
    }
    if (records.empty()) throw InputError(a.records.front(), "holds no record", "make some with sluice validate");
  } else {
    const auto device = choice_named<DeviceKind>(a.device);
    if (device != DeviceKind::cpu && device != DeviceKind::cuda)
      throw InputError("--device", "'" + a.device + "' is no device", "give cpu or cuda");
    const bool on_cpu = device == DeviceKind::cpu;
    if (!on_cpu && !a.list) need_device(*device);
    const std::vector<ValidationCase> cases =
        filtered(validation_cases({.ranks = a.ranks.value_or(default_ranks(*device)),
                                   .processes = on_cpu && !a.threads_only && can_start_processes(),
                                   .few = a.quick,
                                   .device = *device}),
                 a.filter);
    if (cases.empty()) throw InputError("--filter", "no case's label holds '" + a.filter + "'", "see --list");
    if (a.list) {
      for (const ValidationCase& c : cases) fmt::print("{}\n", c.label);
      return 0;
    }
    if (const int started = launch_from_environment().size; started > 1)
      throw InputError("validate", std::to_string(started) + " processes were started together",
                       "start one, which starts others for the cases over MPI");
    handle_signals();
    end_after_signal(Seconds(0.7), "interrupted: what was measured is stored; see --records");
    const std::string out = a.out.empty() ? runs_folder() + "/validation.jsonl" : a.out;
    if (std::filesystem::exists(out))
      throw InputError("--out", "'" + out + "' exists", "choose another file, or look at it with --records");
    const ValidateResult result =
        run_validation(cases, {.out = out,
                               .rounds = a.quick ? std::min(a.rounds, 2) : a.rounds,
                               .seconds = a.quick ? std::min(a.seconds, 0.2) : a.seconds,
                               .progress = parse_progress(a.progress),
                               .program = std::filesystem::read_symlink("/proc/self/exe").string()});
    records = result.records;
    left_out = result.left_out;
    if (!a.json) fmt::print("records: {}\n", visible(std::filesystem::relative(out).string()));
    if (result.interrupted) fmt::print(stderr, "interrupted: the figures are of what was finished\n");
  }
  const Validation validation = validate(validated_cases(records));
  if (validation.cases.empty() && interrupted().load())
    throw RunError("interrupted before a case was finished on both clocks");
  if (validation.cases.empty())
    throw InputError("validate", "no case ran on both clocks", left_out.empty() ? "" : left_out.front());
  if (a.json) {
    Json json = to_json(validation);
    json["left_out"] = left_out;
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", to_table(validation));
    for (const std::string& text : left_out) fmt::print("  left out: {}\n", visible(text));
  }
  if (chart) chart->write(spec_text(validation_chart("validation", validation).spec));
  const bool good = validation.time.median <= 0.03 && validation.time.p90 <= 0.08 && validation.order.share() >= 0.99;
  return a.check && !good ? 1 : 0;
}

}  // namespace sluice
