// An order that is read from a file: `"system": "file:order.csv"` in a case runs a table of PyTorch
// (harness/program/pytorch_table.h), of as many ranks and micro-batches as it has, like any published system. It is in
// no table of systems, and this file is not named as it, since it decides nothing without its file.
//
// Sends and receives in it are checked and then left out: lowering adds those of every plan. Gradients are summed over
// the micro-batches, and the update comes after the last one.
#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/system.h"
#include "harness/plan/chain_partition.h"
#include "harness/program/pytorch_table.h"

namespace sluice {

namespace {

OrderFromTable table_of(const Options& options) {
  const std::string& file = options.text("file");
  if (file.empty())
    throw InputError("order_file", "has no file",
                     "write \"system\": \"file:order.csv\", or give it the option file=order.csv");
  return read_valid_table(file);
}

PipelineSize size_of_table(const Options& options) {
  const Schedule schedule = table_of(options).schedule;
  return {static_cast<int>(schedule.ranks.size()), schedule.microbatches};
}

Plan plan_of_table(const Problem& problem, const Options& options) {
  const OrderFromTable table = table_of(options);
  std::vector<std::vector<DeviceId>> devices;
  for (const std::vector<Rank>& ranks : table.placement.stages) devices.push_back({DeviceId(ranks.front().value)});
  Plan plan = chain_on(problem, devices, options.text("file"));
  plan.rank_order = list_of(problem.devices, [](int r) { return DeviceId(r); });
  return plan;
}

}  // namespace

extern const System order_file = {
    .name = "order_file",
    .title = "Order of a file",
    .citation = "the file's author",
    .written_from = {WrittenFrom::ours, {}, "The order is the file's; stages are cut to take equally long."},
    .options = {{.name = "file",
                 .default_value = "",
                 .help = "Table of PyTorch (CSV) with the order of the ops",
                 .check_file = [](const std::string& file) { read_valid_table(file); }}},
    .require =
        [](int ranks, int microbatches, const Options& options) {
          const PipelineSize size = size_of_table(options);
          if (size.ranks != ranks || size.microbatches != microbatches)
            throw InputError(options.text("file"),
                             fmt::format("is an order of {} ranks and {} micro-batches, not of {} and {}", size.ranks,
                                         size.microbatches, ranks, microbatches),
                             "give as many, or leave both out");
        },
    .plan = plan_of_table,
    .schedule = [](const ScheduleProblem&, const Options& options) { return table_of(options).schedule; },
    .pairs = [](const Options& options) { return has_pairs(table_of(options).schedule); },
    .made_for = size_of_table,
};

}  // namespace sluice
