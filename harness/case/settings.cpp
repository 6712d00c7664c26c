#include "harness/case/settings.h"

#include <algorithm>
#include <utility>

#include "harness/base/json.h"
#include "harness/case/costs.h"
#include "harness/case/optimizer_settings.h"
#include "harness/case/setting_rules.h"
#include "results/store.h"

namespace sluice {

namespace {

// Every update is a point of a curve and a time in the record.
constexpr int kMaxUpdates = 10'000'000;

// Setting::when_unused of several.
constexpr const char* kVirtualClockHasNoRanks = "the virtual clock simulates the ranks";
constexpr const char* kOneDevice = "it runs on one device";
constexpr const char* kNothingIsTrained = "nothing is trained";
constexpr const char* kNoEpochs = "there are no epochs";

std::vector<Setting> make_settings() {
  using namespace setting;
  using Type = SettingValue::Type;
  const auto always = [](const RunCase&) { return true; };
  const auto if_replicated = [](const RunCase& c) { return c.data_parallel > 1; };
  return {
      {.key = "system",
       .of_plan = true,
       .group = HelpGroup::experiment,
       .help = "The system (see sluice list systems)",
       .value = {.type = Type::text, .read = read_system, .write = [](const RunCase& c) { return Json(c.system); }}},
      {.key = "options",
       .has_flag = false,  // --set
       .of_plan = true,
       .group = HelpGroup::experiment,
       .value = {.read = read_options, .write = setting::options_json},
       .canonicalize = canonicalize_options},
      {.key = "workload",
       .of_plan = true,
       .group = HelpGroup::experiment,
       .help =
           "Model, data and optimizer: a name (see sluice list workloads); a file of a workload or model (JSON), also "
           "Hugging Face's config.json (FILE#4096: sequences of 4,096 tokens); or one of costs: of sluice profile or "
           "import_pytorch.py, Piper or dnn-partitioning JSON, PipeDream graph text, PipeEdge YAML (FILE#MODEL)",
       .value = {.type = Type::text,
                 .read = setting::read_workload,
                 .write = [](const RunCase& c) { return Json(c.workload); }}},
      {.key = "workload_digest",
       .has_flag = false,
       .value = setting::text(&RunCase::workload_digest),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.workload_digest.empty(); },
       .fill = fill_workload_digest,
       .check = check_workload_digest},
      {.key = "task",
       .of_plan = true,
       .group = HelpGroup::experiment,
       .help = "what the pipeline does: learn, or only run forward on the initial weights",
       .value = choice(&RunCase::task),
       .in_digest = InDigest::unless_default,
       .in_record_options = infers,
       .fill = [](CaseReading& r) { r.c.task = r.system->inference_only ? Task::inference : Task::train; },
       .check = check_task},
      {.key = "clock",
       .group = HelpGroup::machine,
       .help = "run for real, or on a simulated cluster",
       .value = choice(&RunCase::clock)},
      {.key = "cluster",
       .of_plan = true,
       .group = HelpGroup::machine,
       .help =
           "Of the virtual clock: a name (see sluice list clusters), a JSON file, or "
           "flat:N[,bandwidth=25GiB/s][,latency=5us][,memory=16GiB][,speed=1]; ,host=12GB/s: links to the hosts; "
           ",sharing=fair, ,sends=blocking and ,all_reduce=ring: how traffic shares links; ,pair_share=0.9: what two "
           "ops take that run as an overlapped pair, as a part of their sum; ,pairs=overlap: the sums of "
           "tensor-parallel groups hide behind the products of a pair",
       .value = text(&RunCase::cluster),
       .fill =
           [](CaseReading& r) {
             if (on_wall(r)) r.c.cluster = kThisMachine;
             if (!on_wall(r) && r.made_for && !r.entry.has("cluster"))
               r.c.cluster = "flat:" + std::to_string(r.made_for->ranks);
           },
       .check =
           [](CaseReading& r) {
             if (on_wall(r) && r.c.cluster != kThisMachine)
               r.entry.fail("cluster", "'" + r.c.cluster + "' is simulated, and the wall clock runs on this machine",
                            "use the virtual clock, or leave cluster out");
           },
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (!s.offload || infers(c)) c.cluster = without_key(c.cluster, "host");
             if (!has_pairs(c, s)) c.cluster = without_key(c.cluster, "pair_share");
             if (!has_pairs(c, s) || c.tensor == 1) c.cluster = without_key(c.cluster, "pairs");
           }},
      {.key = "costs",
       .of_plan = true,
       .group = HelpGroup::machine,
       .help = "Costs of layers: analytic, calibrated (by the cluster's devices, in fp32 or 16 bit), profile (measured "
               "on this machine) or "
               "a file of sluice profile; of a published profile: raw keeps its numbers as the authors' program takes "
               "them",
       .default_text = "profile on this machine, on either clock; analytic on other clusters",
       .value = text(&RunCase::costs),
       .fill = [](CaseReading& r) { r.c.costs = on_wall(r) || is_this_machine(r.c) ? kMeasuredCosts : kAnalyticCosts; },
       .check = check_costs,
       .when_unused = "a workload that is a file of costs has its own"},
      {.key = "precision",
       .of_plan = true,
       .group = HelpGroup::experiment,
       .help = "what times and bytes are counted in; 16 bit with Adam's state keeps 16, 18 or 20 bytes a parameter; of "
               "a file of costs, only weights, gradients and the optimizer's state",
       .value = choice(&RunCase::precision),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.precision != Precision::fp32; },
       .check = setting::check_precision},
      {.key = "attention",
       .of_plan = true,
       .group = HelpGroup::experiment,
       .help = "what attention keeps of its scores for the backward. fused: none, they are recomputed; kept: the "
               "softmax's output; kept_with_dropout: also the dropout's mask and output",
       .value = choice(&RunCase::attention),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.attention != AttentionScores::fused; },
       .check = setting::check_attention},
      {.key = "transport",
       .group = HelpGroup::machine,
       .help = "one process, processes or GPUs",
       .value = choice_of_wall_clock(&RunCase::transport),
       .when_unused = kVirtualClockHasNoRanks},
      {.key = "device",
       .group = HelpGroup::machine,
       .help = "what ranks compute on",
       .value = choice_of_wall_clock(&RunCase::device),
       .check = check_transport_and_device,
       .when_unused = kVirtualClockHasNoRanks},
      {.key = "ranks",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "Devices that the system is given",
       .default_text = "all of the cluster's on the virtual clock, 2 on the wall clock; mpi: all processes",
       .value = integer(&RunCase::ranks, 1),
       .fill = fill_ranks,
       .check = check_cluster,
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (s.one_process) c.ranks = 1;
           },
       .when_unused = kOneDevice},
      {.key = "data_parallel",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "Replicas of the pipeline, which share ranks and batch",
       .value = integer(&RunCase::data_parallel, 1),
       .in_digest = InDigest::unless_default,
       .in_record_options = if_replicated,
       .check = check_pipelines,
       .unused = [](const RunCase&, const System& s) { return s.one_process; },
       .when_unused = kOneDevice},
      {.key = "layout",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "which ranks are on neighbouring devices. groups: those of one stage; pipelines: those of one pipeline",
       .value = choice(&RunCase::layout),
       .in_digest = InDigest::unless_default,
       .in_record_options = if_replicated,
       .unused = [](const RunCase& c, const System&) { return c.data_parallel == 1; },
       .when_unused = "there is one pipeline; --data-parallel runs several"},
      {.key = "sharding",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "what the replicas of a stage divide: nothing, the optimizer's state (ZeRO-1), or weights "
               "too (ZeRO-3), gathered for each use, visit to the stage or update",
       .value = choice(&RunCase::sharding),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.sharding != StageSharding::system; },
       .unused = [](const RunCase& c, const System& s) { return s.synchronous && !may_have_replicas(c, s); },
       .when_unused = "no stage has replicas"},
      {.key = "gradient_buckets",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help =
           "Replicas reduce their gradients in buckets of at least this size, each as soon as the backward has made "
           "it; end: all at once, after the backward",
       .value = {.type = Type::text, .read = read_gradient_buckets, .write = gradient_buckets_json},
       .in_digest = InDigest::unless_as_before,
       .before = kReducedAtTheEnd,
       .in_record_options = [](const RunCase& c) { return c.gradient_buckets.value > 0; },
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (!may_have_replicas(c, s)) c.gradient_buckets = Bytes(0);
           },
       .when_unused = "no stage has replicas"},
      {.key = "stages",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help =
           "Given stages of one pipeline, a device each, or several in turn where the system has several on a device: "
           "the first layer of each from the second on, as in 7,15,22; or a layout of Megatron-LM's, E for the "
           "embedding, t for a block, L for the head, as in 'Ett|(ttt|)*6,ttL'; or torchtitan's "
           "module_fqns_per_model_part, as in '[[\"embed\",\"layers.0\"],[\"layers.1\",\"output\"]]'",
       .default_text = "the system cuts the model",
       .value = {.type = Type::text, .read = read_stages, .write = stages_json},
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.first_layers.empty(); },
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (s.one_process || s.data_parallel) c.first_layers.clear();
           },
       .when_unused = "it has the whole model on every device"},
      {.key = "cuts",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "what balanced cuts into stages weigh: layers and the messages over the cut, or layers alone; blocks: "
               "cuts only before and after blocks that repeat, as a transformer's",
       .value = choice(&RunCase::cuts),
       .in_digest = InDigest::unless_as_before,
       .before = "compute",
       .in_record_options = [](const RunCase& c) { return c.cuts != Cuts::compute; },
       .check = check_cuts,
       .canonicalize =
           [](RunCase& c, const System& s) {
             const bool messages_count = cuts_may_count_messages(c, s);
             if (!has_cuts(c, s) || (!messages_count && (c.cuts == Cuts::messages || cuts_by_its_own_objective(c, s))))
               c.cuts = Cuts::compute;
             else if (cuts_by_its_own_objective(c, s))
               c.cuts = Cuts::messages;
           },
       .when_unused = "it has no balanced cut, or runs on this machine, where messages do not count"},
      {.key = "tensor",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "Tensor-parallel degree: devices among which heads, widths and vocabulary are divided",
       .value = integer(&RunCase::tensor, 1),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.tensor > 1; },
       .check = check_tensor,
       .unused = [](const RunCase&, const System& s) { return s.one_process; },
       .when_unused = kOneDevice},
      {.key = "experts",
       .of_plan = true,
       .group = HelpGroup::parallelism,
       .help = "where the experts of a mixture of experts are: on every data-parallel replica, or spread over the "
               "replicas, which exchange tokens by all-to-alls (expert parallelism)",
       .value = choice(&RunCase::experts),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.experts == ExpertPlacement::spread; },
       .check = check_experts,
       .unused =
           [](const RunCase& c, const System& s) {
             return s.one_process || (s.synchronous && !infers(c) && !may_have_replicas(c, s));
           },
       .when_unused = "no stage has replicas; --data-parallel gives them"},
      {.key = "microbatch_sizes",
       .of_plan = true,
       .group = HelpGroup::batches,
       .help = "Samples of each micro-batch of an update, in order, as in 3,3,2,2: they need not divide the batch",
       .default_text = "all have the same",
       .value = {.type = Type::list, .read = read_microbatch_sizes, .write = microbatch_sizes_json},
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.microbatch_sizes.empty(); },
       .canonicalize =
           [](RunCase& c, const System&) {
             std::vector<std::int64_t>& sizes = c.microbatch_sizes;
             if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to()) == sizes.end()) sizes.clear();
           },
       .when_unused = "all have the same, as without it"},
      {.key = "batch",
       .of_plan = true,
       .group = HelpGroup::batches,
       .help = "Samples per update",
       .default_text = "the workload's",
       .value = integer(&RunCase::batch, 1, kMaxSamples),
       .fill = fill_batch,
       .check = check_batch},
      {.key = "update",
       .of_plan = true,
       .group = HelpGroup::batches,
       .help =
           "when an asynchronous system that does not accumulate gradients updates: after the whole batch, taken as "
           "one micro-batch, or after every micro-batch, as in the papers",
       .value = choice(&RunCase::update),
       .in_digest = InDigest::never,
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (!updates_after_every_micro_batch(c, s)) c.update = UpdateAfter::batch;
             if (c.update == UpdateAfter::micro_batch) c.batch /= std::exchange(c.microbatches, 1);
           },
       .when_unused = "it has a flush, accumulates gradients or infers"},
      {.key = "microbatches",
       .of_plan = true,
       .group = HelpGroup::batches,
       .help = "Micro-batches per update",
       .default_text = "the workload's",
       .value = integer(&RunCase::microbatches, 1),
       .fill = fill_microbatches,
       .check = check_microbatches,
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (updates_after_every_micro_batch(c, s)) c.microbatches = 1;
           },
       .when_unused = "it takes the batch as one micro-batch; --update micro_batch updates after every micro-batch"},
      {.key = "queue",
       .of_plan = true,
       .group = HelpGroup::batches,
       .help = "Inference: micro-batches that may wait between two stages",
       .value = integer(&RunCase::queue, 1),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return infers(c) && c.queue != RunCase{}.queue; },
       .unused = [](const RunCase& c, const System& s) { return !infers(c) || s.one_process || s.data_parallel; },
       .when_unused = "only inference through several stages has queues"},
      {.key = "seed",
       .group = HelpGroup::training,
       .help = "Seed of the weights and of the data's order",
       .value = integer(&RunCase::seed, 0),
       .unused = [](const RunCase& c, const System&) { return !c.train; },
       .when_unused = kNothingIsTrained},
      {.key = "steps",
       .group = HelpGroup::batches,
       .help = "Updates instead of epochs",
       .default_text = "100 if there is no data set",
       .value = integer(&RunCase::steps, 0, kMaxUpdates)},
      {.key = "epochs",
       .group = HelpGroup::batches,
       .help = "Epochs, with an evaluation after each",
       .default_text = "the workload's",
       .value = integer(&RunCase::epochs, 0, 1'000'000),
       .fill =
           [](CaseReading& r) { r.c.epochs = r.c.steps > 0 || !has_data(r) || infers(r.c) ? 0 : r.workload->epochs; },
       .check = check_length,
       .when_unused = kNothingIsTrained},
      {.key = "evaluations_per_epoch",
       .has_flag = false,
       .value = integer(&RunCase::evaluations_per_epoch, 1, 1000),
       .unused = [](const RunCase& c, const System&) { return c.epochs == 0; },
       .when_unused = kNoEpochs},
      {.key = "train",
       .flag = "--no-train",
       .help = "Time only, on the virtual clock: no numerics, so that there is no learning curve",
       .value = boolean(&RunCase::train),
       .fill = fill_train,
       .check = check_train},
      {.key = "weight_gradient",
       .of_plan = true,
       .group = HelpGroup::training,
       .help =
           "how weight gradients are computed. per_microbatch: one product per layer and micro-batch; batched: one per "
           "layer for consecutive weight gradients; auto: the faster of the two by --costs that fits into memory",
       .value = choice(&RunCase::weight_gradient),
       .in_record_options = always,
       .unused = [](const RunCase& c, const System&) { return infers(c); },
       .when_unused = "inference has no weight gradients"},
      {.key = "step",
       .of_plan = true,
       .group = HelpGroup::training,
       .help = "when a rank of a system with a flush begins the next update. free: once its own stages have stepped; "
               "barrier: once all ranks have",
       .value = choice(&RunCase::step),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.step != UpdateStart::free; },
       .unused = [](const RunCase& c, const System& s) { return !s.synchronous || s.one_process || infers(c); },
       .when_unused = "it updates without a flush, on one device, or not at all"},
      {.key = "pin",
       .group = HelpGroup::machine,
       .help = "a core of its own for every rank",
       .value = choice(&RunCase::pin),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.pin != Pin::none; },
       .check = check_pin},
      {.key = "interference",
       .group = HelpGroup::machine,
       .help = "What slows devices and links down, and when: a preset (light, dynpipe-log:scale=0.01), a file, or "
               "episodes (compute:1@10-20x2)",
       .default_text = "none",
       .value = text(&RunCase::interference),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.interference.empty(); },
       .check = check_interference},
      {.key = "interference_by",
       .group = HelpGroup::machine,
       .help = "real episodes are pauses inside ops, or load on the ranks' cores",
       .value = choice(&RunCase::interference_by),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.interference_by != InterferenceBy::pause; },
       .check = check_interference_by,
       .unused = [](const RunCase& c, const System&) { return c.interference.empty(); },
       .when_unused = "there is no interference"},
      {.key = "slowdown",
       .group = HelpGroup::machine,
       .help = "Slowdown factor of each real rank: 1,2,1,4; one number: of all ranks",
       .default_text = "none",
       .value = text(&RunCase::slowdown),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.slowdown.empty(); },
       .check = check_slowdown,
       .unused = [](const RunCase& c,
                    const System&) { return parse_slowdowns(c.slowdown, c.ranks, "slowdown").empty(); },
       .when_unused = "no rank is slowed"},
      {.key = "throttle",
       .group = HelpGroup::machine,
       .help = "Rate, latency and burst of real links: rate=100Mbit/s,latency=20ms,burst=32KiB; of single links: "
               "'0-1:rate=1GB/s;1-2:rate=2GB/s'",
       .default_text = "none",
       .value = text(&RunCase::throttle),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.throttle.empty(); },
       .check = check_throttle},
      {.key = "optimizer",
       .of_plan = true,
       .group = HelpGroup::training,
       .help =
           "KIND[,KEY=VALUE...], such as adamw,learning_rate=1e-4: its state is part of every peak; what is left out "
           "stays as the workload has it",
       .default_text = "the workload's",
       .value = {.read = read_optimizer_setting, .write = optimizer_json},
       .fill = fill_optimizer,
       .canonicalize = canonicalize_optimizer,
       .when_unused = kNothingIsTrained},
      {.key = "clip_norm",
       .of_plan = true,
       .group = HelpGroup::training,
       .help = "Limit of the norm over the gradients of all stages, to which larger ones are scaled; 0: none",
       .default_text = "0",
       .value = {.type = Type::number,
                 .read =
                     [](CaseReading& r, const std::string& key) {
                       r.c.optimizer.clip_norm = r.entry.number_or(key, 0, 0, kMaxNumber);
                     },
                 .write = [](const RunCase& c) { return Json(c.optimizer.clip_norm); }},
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.optimizer.clip_norm > 0; },
       .check = check_clip_norm,
       .canonicalize =
           [](RunCase& c, const System& s) {
             if (infers(c) || (!c.train && (s.one_process || c.ranks == 1))) c.optimizer.clip_norm = 0;
           },
       .when_unused = kNothingIsTrained},
      {.key = "purpose",
       .has_flag = false,
       .value = choice(&RunCase::purpose),
       .in_digest = InDigest::unless_default,
       .check = check_purpose},
      {.key = "tune",
       .has_flag = false,
       .value = {.read = read_tune_setting,
                 .write = [](const RunCase& c) { return c.tune ? tune_json(*c.tune) : Json(); }},
       .when_unused = "the learning rate is not \"tuned\""},
      {.key = "evaluation",
       .group = HelpGroup::training,
       .help = "evaluate copies while the pipeline runs on",
       .value = choice(&RunCase::evaluation),
       .in_digest = InDigest::unless_default,
       .unused = [](const RunCase& c, const System& s) { return s.synchronous || c.epochs == 0; },
       .when_unused = "it drains at every update, or has no epochs after which it could evaluate"},
      {.key = "leftover",
       .group = HelpGroup::training,
       .help = "an epoch's last micro-batches make an update",
       .value = choice(&RunCase::leftover),
       .in_digest = InDigest::unless_default,
       .check = check_leftover,
       .unused = [](const RunCase& c, const System& s) { return !s.accumulates || c.epochs == 0; },
       .when_unused = "only epochs of systems that accumulate gradients without a flush leave micro-batches over"},
      {.key = "file_digests",
       .has_flag = false,
       .value = text(&RunCase::file_digests),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return !c.file_digests.empty(); },
       .fill = fill_file_digests,
       .check = check_file_digests},
      {.key = "timeout_seconds",
       .flag = "--timeout",
       .group = HelpGroup::batches,
       .help = "Seconds until a case ends as timed_out; 0: no limit",
       .default_text = "0",
       .value = not_negative(&RunCase::timeout_seconds, kMaxSeconds),
       .in_digest = InDigest::never},
      {.key = "inject_failure",
       .has_flag = false,  // --inject-failure RANK:UPDATE holds for the cases of a sweep, too
       .value = {.read = read_failure, .write = failure_json},
       .canonicalize =
           [](RunCase& c, const System&) {
             if (!failure_happens(c)) c.fail_rank = -1, c.fail_update = -1, c.fail_move = -1, c.fail_killed = false;
           },
       .when_unused = "nothing is trained, or there is no such rank or update"},
  };
}

}  // namespace

std::span<const Setting> settings() {
  static const std::vector<Setting> all = make_settings();
  return all;
}

std::string flag_of(const Setting& setting) {
  if (!setting.flag.empty()) return setting.flag;
  std::string flag = "--" + setting.key;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string place_of_flag(const std::string& pointer) {
  if (pointer.empty()) return "command line";
  const std::string key = pointer.substr(1, pointer.find('/', 1) - 1);
  if (key == "options") return "--set";
  const auto setting = std::ranges::find(settings(), key, &Setting::key);
  if (setting == settings().end() || !setting->has_flag) return "'" + key + "', which only a sweep can give";
  const bool inner = setting->value.type == SettingValue::Type::object && key.size() + 1 < pointer.size();
  return flag_of(*setting) + (inner ? " " + pointer.substr(key.size() + 2) : "");  // --optimizer momentum
}

std::string help_of(const Setting& setting) {
  const std::vector<std::string>& choices = setting.value.choices;
  if (setting.value.type == SettingValue::Type::boolean) return setting.help;  // the flag is the other value
  const Json otherwise = setting.value.write(RunCase{});
  if (choices.empty()) {
    const std::string text = otherwise.text();
    const std::string& shown = setting.default_text.empty() ? text : setting.default_text;
    return shown.empty() ? setting.help : setting.help + " (default: " + shown + ")";
  }
  std::string names;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) names += i + 1 < choices.size() ? ", " : " or ";
    names += choices[i] == otherwise ? choices[i] + " (default)" : choices[i];
  }
  return names + ": " + setting.help;
}

RunCase resolve(const Entry& entry) { return read_case(entry).c; }

Json to_json(const RunCase& c) {
  const RunCase usual;
  Json all = Json::object();
  for (const Setting& setting : settings()) {
    Json value = setting.value.write(c);
    const bool optional = setting.in_digest == InDigest::unless_default || setting.in_digest == InDigest::never;
    if (!value.is_null() && !(optional && value == setting.value.write(usual))) all[setting.key] = std::move(value);
  }
  return all;
}

std::string digest_of(const RunCase& c) {
  Json all = to_json(c);
  for (const Setting& setting : settings()) {
    const Json* value = all.find(setting.key);
    const bool as_before = setting.in_digest == InDigest::unless_as_before && value && *value == setting.before;
    if (as_before || setting.in_digest == InDigest::never) all.erase(setting.key);
  }
  return digest(all);
}

std::map<std::string, std::string> record_options(const RunCase& c) {
  std::map<std::string, std::string> options;
  for (const Setting& setting : settings()) {
    if (!setting.in_record_options || !setting.in_record_options(c)) continue;
    const Json value = setting.value.write(c);
    options[setting.key] = value.text();
  }
  return options;
}

}  // namespace sluice
