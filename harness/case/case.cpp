#include "harness/case/case.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>

#include "harness/base/error.h"
#include "harness/case/prepare.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/model/cluster.h"
#include "harness/pipeline/system.h"
#include "results/store.h"

namespace sluice {

namespace {

const char* name_of(OptimizerSpec::Kind kind) {
  switch (kind) {
    case OptimizerSpec::Kind::sgd:
      return "sgd";
    case OptimizerSpec::Kind::adam:
      return "adam";
    case OptimizerSpec::Kind::adamw:
      return "adamw";
    case OptimizerSpec::Kind::rmsprop:
      return "rmsprop";
  }
  return "?";
}

void read_choice(JsonReader& reader, const std::string& key, std::string& value,
                 const std::vector<std::string>& choices) {
  value = reader.text(key, value);
  if (std::ranges::count(choices, value) == 0)
    reader.fail(key, "unknown value '" + value + "'", suggestion(value, choices));
}

RateSchedule read_rate_schedule(JsonReader o) {
  RateSchedule schedule;
  read_choice(o, "kind", schedule.kind, {"constant", "step", "polynomial"});
  const auto positive = [&](const char* key, double value) {
    value = o.number(key, value);
    if (!(value > 0)) o.fail(key, "must be above 0");
    return value;
  };
  if (schedule.kind == "step") {
    schedule.every_epochs = static_cast<int>(o.integer("every_epochs", 1, 1));
    schedule.factor = positive("factor", schedule.factor);
  }
  if (schedule.kind == "polynomial") schedule.power = positive("power", schedule.power);
  o.no_other_keys();
  return schedule;
}

OptimizerSpec read_optimizer(JsonReader& reader, OptimizerSpec optimizer, bool& tuned, RateSchedule& schedule) {
  if (!reader.has("optimizer")) return optimizer;
  JsonReader o = reader.object("optimizer");
  if (o.has("schedule")) schedule = read_rate_schedule(o.object("schedule"));
  std::string kind = name_of(optimizer.kind);
  read_choice(o, "kind", kind, {"sgd", "adam", "adamw", "rmsprop"});
  for (const auto k :
       {OptimizerSpec::Kind::sgd, OptimizerSpec::Kind::adam, OptimizerSpec::Kind::adamw, OptimizerSpec::Kind::rmsprop})
    if (kind == name_of(k)) optimizer.kind = k;
  const auto not_negative = [&](const char* key, double& value) {
    value = o.number(key, value);
    if (value < 0) o.fail(key, "must not be negative");
  };
  tuned = o.has("learning_rate") && o.raw("learning_rate") == "tuned";
  if (!tuned) not_negative("learning_rate", optimizer.learning_rate);
  not_negative("momentum", optimizer.momentum);
  not_negative("weight_decay", optimizer.weight_decay);
  const bool sgd = optimizer.kind == OptimizerSpec::Kind::sgd;
  if (!sgd) {
    if (o.has("momentum")) o.fail("momentum", "belongs to sgd, not to " + kind);
    optimizer.momentum = 0;
  }
  if (sgd && optimizer.momentum > 0) {
    optimizer.nesterov = o.boolean("nesterov", false);
    optimizer.momentum_ema = o.boolean("momentum_ema", false);
    not_negative("dampening", optimizer.dampening);
  }
  o.no_other_keys();
  return optimizer;
}

int as_int(std::int64_t value, JsonReader& reader, const std::string& key) {
  if (value > 1'000'000'000) reader.fail(key, std::to_string(value) + " is too large");
  return static_cast<int>(value);
}

// The "tune" of a case whose learning rate is tuned.
TuneSpec read_tune(JsonReader& reader, const RunCase& c) {
  if (!reader.has("tune"))
    reader.fail("tune", "is missing, but the learning rate is to be tuned",
                R"(give "tune": {"learning_rate": [0.01, 0.03, 0.1]})");
  JsonReader t = reader.object("tune");
  TuneSpec tune;
  const nlohmann::json& rates = t.raw("learning_rate");
  if (!rates.is_array() || rates.empty()) t.fail("learning_rate", "must be a list of at least one rate");
  std::set<double> grid;
  for (const nlohmann::json& rate : rates) {
    if (!rate.is_number() || !(rate.get<double>() > 0))
      t.fail("learning_rate", rate.dump() + " is not a number above 0");
    grid.insert(rate.get<double>());
  }
  tune.learning_rates.assign(grid.begin(), grid.end());
  tune.seed = static_cast<std::uint64_t>(t.integer("seed", static_cast<std::int64_t>(tune.seed), 0));
  if (tune.seed == c.seed)
    t.fail("seed", std::to_string(tune.seed) + " is also a seed that is measured",
           "tune on a seed of its own, e.g. 101");
  tune.steps = as_int(t.integer("steps", 0, 0), t, "steps");
  tune.epochs = as_int(t.integer("epochs", 0, 0), t, "epochs");
  if (tune.epochs > 0 && tune.steps > 0) t.fail("steps", "give epochs or steps, not both");
  if (tune.epochs > 0 && c.epochs == 0) t.fail("epochs", "the case itself runs steps, not epochs", "give steps");
  if (tune.epochs == 0 && tune.steps == 0) tune.epochs = c.epochs, tune.steps = c.steps;
  t.no_other_keys();
  return tune;
}

// The cluster can be read and has a device for every rank; each is looked at once.
void check_cluster(const JsonReader& reader, const RunCase& c, int ranks) {
  if (c.cluster == "this machine") return;
  static std::mutex mutex;
  static std::map<std::string, std::size_t> devices;
  const std::lock_guard lock(mutex);
  auto known = devices.find(c.cluster);
  if (known == devices.end()) {
    try {
      const Cluster cluster = load_cluster(c.cluster, source_folder() + "/workloads/clusters");
      known = devices.emplace(c.cluster, cluster.devices.size()).first;
    } catch (const InputError& e) {
      throw InputError(reader.where("cluster"), e.what());
    }
  }
  if (static_cast<std::size_t>(ranks) > known->second)
    reader.fail("ranks", std::to_string(ranks) + " ranks on a cluster of " + std::to_string(known->second) + " devices",
                "use fewer ranks or a larger cluster");
}

RunCase read_one(const nlohmann::json& json, const std::string& file, const std::string& pointer) {
  JsonReader reader(json, file, pointer);
  RunCase c;
  const System& system = find_system(reader.text("system"), reader.where("system"));
  c.system = system.name;
  std::map<std::string, std::string> given;
  if (reader.has("options")) {
    const JsonReader options = reader.object("options");
    for (const auto& item : options.json().items())
      given[item.key()] = item.value().is_string() ? item.value().get<std::string>() : item.value().dump();
  }
  c.options = resolve_options(system.options, given, reader.where("options")).values();
  c.workload = reader.text("workload");
  const Workload& workload = find_workload(c.workload, reader.where("workload"));
  read_choice(reader, "clock", c.clock, {"wall", "virtual"});
  const bool on_wall = c.clock == "wall";
  if (on_wall) c.cluster = "this machine";
  c.cluster = reader.text("cluster", c.cluster);
  c.costs = reader.text("costs", on_wall ? "profile" : "analytic");
  if (c.costs != "profile" && c.costs != "analytic" && !std::filesystem::exists(c.costs))
    reader.fail("costs", "no such file '" + c.costs + "'", "give profile, analytic or a file of sluice profile");
  read_choice(reader, "transport", c.transport, {"threads", "mpi", "nccl"});
  read_choice(reader, "device", c.device, {"cpu", "cuda"});
  if (!on_wall) {
    if (c.transport == "mpi") reader.fail("transport", "the virtual clock runs in one process", "leave transport out");
    c.transport = "none";
    c.device = "";
  }
  if (c.transport == "mpi" && !mpi_built())
    reader.fail("transport", "this build has no MPI transport",
                "install MPI (Debian: libopenmpi-dev openmpi-bin) and build again, or use threads");
  if (c.transport == "mpi" && c.device == "cuda")
    reader.fail("transport", "mpi carries what is in the CPU's memory", "use nccl");
  if (c.transport == "nccl" && c.device != "cuda")
    reader.fail("transport", "nccl connects GPUs", "use --device cuda, or threads");
  c.ranks = as_int(reader.integer("ranks", c.ranks, 1), reader, "ranks");
  check_cluster(reader, c, system.one_process ? 1 : c.ranks);
  c.data_parallel = as_int(reader.integer("data_parallel", 1, 1), reader, "data_parallel");
  if (!system.one_process && c.ranks % c.data_parallel != 0)
    reader.fail("data_parallel",
                std::to_string(c.data_parallel) + " pipelines do not divide " + std::to_string(c.ranks) + " ranks",
                "choose ranks that are a multiple");
  read_choice(reader, "layout", c.layout, {"groups", "pipelines"});
  read_choice(reader, "sharding", c.sharding, {"system", "none", "optimizer", "use", "visit", "update"});
  c.batch = reader.integer("batch", workload.batch, 1);
  // One process has no pipe to fill: it takes the batch whole, unless that would not fit (full-size
  // models) or is asked for. Anything else would flatter systems that take whole batches.
  const int usual = system.one_process && workload.runs_for_real ? 1 : workload.microbatches;
  c.microbatches = as_int(reader.integer("microbatches", usual, 1), reader, "microbatches");
  if (c.batch % c.microbatches != 0)
    reader.fail("microbatches",
                std::to_string(c.microbatches) + " micro-batches do not divide the batch of " + std::to_string(c.batch),
                "choose a batch that is a multiple");
  c.seed = static_cast<std::uint64_t>(reader.integer("seed", 1, 0));
  const bool has_data = workload.dataset != "synthetic";
  c.steps = as_int(reader.integer("steps", 0, 0), reader, "steps");
  c.epochs = c.steps > 0 || !has_data ? 0 : workload.epochs;
  c.epochs = as_int(reader.integer("epochs", c.epochs, 0), reader, "epochs");
  if (c.epochs > 0 && c.steps > 0) reader.fail("steps", "give epochs or steps, not both");
  if (c.epochs > 0 && !has_data) reader.fail("epochs", "workload '" + c.workload + "' has no data set", "give steps");
  if (c.epochs == 0 && c.steps == 0) {
    if (reader.has("steps")) reader.fail("steps", "is 0", "must be at least 1");
    c.steps = 100;
  }
  c.evaluations_per_epoch = as_int(reader.integer("evaluations_per_epoch", 1, 1), reader, "evaluations_per_epoch");
  c.train = reader.boolean("train", workload.runs_for_real);
  if (on_wall && !workload.runs_for_real)
    reader.fail("workload", "'" + c.workload + "' is a full-size declaration for the virtual clock",
                "use --clock virtual");
  if (!c.train && on_wall) reader.fail("train", "the wall clock always trains");
  if (!c.train) c.epochs = 0, c.steps = std::max(c.steps, 1);
  read_choice(reader, "weight_gradient", c.weight_gradient, {"per_microbatch", "batched"});
  read_choice(reader, "step", c.step, {"free", "barrier"});
  read_choice(reader, "pin", c.pin, {"none", "core"});
  if (c.pin != "none" && !on_wall) reader.fail("pin", "the virtual clock has no ranks to pin");
  if (c.pin != "none" && !hwloc_built())
    reader.fail("pin", "this build has no hwloc", "install it (Debian: libhwloc-dev) and build again, or use none");
  OptimizerSpec optimizer;
  optimizer.learning_rate = workload.optimizer.lr;
  optimizer.momentum = workload.optimizer.momentum;
  optimizer.weight_decay = workload.optimizer.weight_decay;
  if (workload.optimizer.name == "adam") optimizer.kind = OptimizerSpec::Kind::adam;
  if (workload.optimizer.name == "adamw") optimizer.kind = OptimizerSpec::Kind::adamw;
  bool tuned = false;
  c.optimizer = read_optimizer(reader, optimizer, tuned, c.rate_schedule);
  read_choice(reader, "purpose", c.purpose, {"measure", "boundary"});
  if (c.purpose == "boundary" && (c.steps == 0 || !c.train))
    reader.fail("steps", "a divergence boundary needs the loss of every update of a real training",
                "give steps instead of epochs");
  if (c.purpose == "boundary" && tuned)
    reader.fail("purpose", "a divergence boundary needs a grid of rates, not a tuned one",
                R"(give "optimizer": {"learning_rate": [0.01, 0.03, 0.1]})");
  if (tuned && !c.train) reader.fail("optimizer/learning_rate", "only training can be tuned");
  if (tuned) {
    c.tune = read_tune(reader, c);
    c.optimizer.learning_rate = 0;  // until it is chosen
  } else if (reader.has("tune")) {
    reader.object("tune");  // for the combinations of this entry that are tuned
  }
  read_choice(reader, "evaluation", c.evaluation, {"drain", "snapshot"});
  read_choice(reader, "leftover", c.leftover, {"drop", "partial"});
  if (c.leftover == "partial" && c.evaluation == "snapshot")
    reader.fail("leftover", "partial needs a pipe that is drained at every epoch's end", "use evaluation drain");
  c.timeout_seconds = reader.number("timeout_seconds", 0);
  if (c.timeout_seconds < 0) reader.fail("timeout_seconds", "must not be negative");
  if (reader.has("inject_failure")) {
    JsonReader failure = reader.object("inject_failure");
    c.fail_rank = as_int(failure.integer("rank", 0), failure, "rank");
    c.fail_update = failure.integer("update", 0);
    failure.no_other_keys();
  }
  reader.no_other_keys();
  // What makes no difference to the experiment must not make a difference to its digest.
  if (system.one_process) c.ranks = c.data_parallel = 1, c.sharding = "system";
  if (c.data_parallel == 1) c.layout = "groups";
  if (!system.synchronous && !system.accumulates) c.microbatches = 1;
  if (system.synchronous) c.evaluation = "drain";
  if (!system.accumulates) c.leftover = "drop";
  if (!system.synchronous || system.one_process) c.step = "free";
  return c;
}

}  // namespace

bool runs_as_processes(const RunCase& c) {
  return c.transport == "mpi" || (c.transport == "nccl" && launch_from_environment().size > 1);
}

nlohmann::json to_json(const OptimizerSpec& optimizer) {
  nlohmann::json json = {{"kind", name_of(optimizer.kind)},
                         {"learning_rate", optimizer.learning_rate},
                         {"momentum", optimizer.momentum},
                         {"weight_decay", optimizer.weight_decay}};
  // Only where it is not the default, so that earlier records keep their digests.
  if (optimizer.nesterov) json["nesterov"] = true;
  if (optimizer.momentum_ema) json["momentum_ema"] = true;
  if (optimizer.dampening != 0) json["dampening"] = optimizer.dampening;
  return json;
}

nlohmann::json to_json(const RunCase& c) {
  nlohmann::json json = {{"system", c.system},
                         {"options", c.options},
                         {"workload", c.workload},
                         {"cluster", c.cluster},
                         {"clock", c.clock},
                         {"costs", c.costs},
                         {"transport", c.transport},
                         {"device", c.device},
                         {"ranks", c.ranks},
                         {"batch", c.batch},
                         {"microbatches", c.microbatches},
                         {"seed", c.seed},
                         {"epochs", c.epochs},
                         {"evaluations_per_epoch", c.evaluations_per_epoch},
                         {"steps", c.steps},
                         {"train", c.train},
                         {"weight_gradient", c.weight_gradient},
                         {"optimizer", to_json(c.optimizer)}};
  if (c.tune) {
    json["optimizer"]["learning_rate"] = "tuned";
    json["tune"] = {{"learning_rate", c.tune->learning_rates},
                    {"seed", c.tune->seed},
                    {"epochs", c.tune->epochs},
                    {"steps", c.tune->steps}};
  }
  if (c.data_parallel != 1) json["data_parallel"] = c.data_parallel;
  if (c.layout != "groups") json["layout"] = c.layout;
  if (c.sharding != "system") json["sharding"] = c.sharding;
  if (c.purpose != "measure") json["purpose"] = c.purpose;
  if (c.evaluation != "drain") json["evaluation"] = c.evaluation;
  if (c.leftover != "drop") json["leftover"] = c.leftover;
  if (c.step != "free") json["step"] = c.step;
  if (c.pin != "none") json["pin"] = c.pin;
  const RateSchedule& rate = c.rate_schedule;
  if (rate.kind == "step")
    json["optimizer"]["schedule"] = {{"kind", rate.kind}, {"every_epochs", rate.every_epochs}, {"factor", rate.factor}};
  if (rate.kind == "polynomial") json["optimizer"]["schedule"] = {{"kind", rate.kind}, {"power", rate.power}};
  if (c.fail_rank >= 0) json["inject_failure"] = {{"rank", c.fail_rank}, {"update", c.fail_update}};
  return json;
}

std::vector<RunCase> expand_case(const nlohmann::json& entry, const std::string& file, const std::string& pointer) {
  if (!entry.is_object())
    throw InputError(file + ": " + (pointer.empty() ? "/" : pointer),
                     std::string("must be an object, is ") + entry.type_name());
  std::vector<nlohmann::json> combinations{nlohmann::json::object()};
  const auto multiply = [&](const std::string& key, const nlohmann::json& values,
                            const std::function<void(nlohmann::json&, const nlohmann::json&)>& set) {
    if (values.empty())
      throw InputError(file + ": " + pointer + "/" + key, "is an empty list", "give at least one value");
    std::vector<nlohmann::json> next;
    for (const nlohmann::json& combination : combinations)
      for (const nlohmann::json& value : values) {
        next.push_back(combination);
        set(next.back(), value);
      }
    if (next.size() > 1'000'000) throw InputError(file + ": " + pointer, "more than a million combinations");
    combinations = std::move(next);
  };
  for (const auto& item : entry.items()) {
    nlohmann::json values = item.value().is_array() ? item.value() : nlohmann::json::array({item.value()});
    if (item.key() == "system") {
      nlohmann::json systems = nlohmann::json::array();
      for (const nlohmann::json& value : values) {
        if (value != "*" && value != "*asynchronous") {
          systems.push_back(value);
          continue;
        }
        for (const System* system : all_systems())
          if (value == "*" || !system->synchronous) systems.push_back(system->name);
      }
      values = systems;
    }
    const bool nested = item.key() == "options" || item.key() == "optimizer";
    if (nested && item.value().is_object()) {
      for (const auto& inner : item.value().items()) {
        const nlohmann::json choices =
            inner.value().is_array() ? inner.value() : nlohmann::json::array({inner.value()});
        multiply(item.key() + "/" + inner.key(), choices,
                 [&](nlohmann::json& c, const nlohmann::json& v) { c[item.key()][inner.key()] = v; });
      }
      continue;
    }
    multiply(item.key(), values, [&](nlohmann::json& c, const nlohmann::json& v) { c[item.key()] = v; });
  }
  std::vector<RunCase> cases;
  for (const nlohmann::json& combination : combinations) cases.push_back(read_one(combination, file, pointer));
  return cases;
}

Sweep load_sweep(const std::string& path) {
  const nlohmann::json json = parse_json_file(path);
  JsonReader reader(json, path);
  Sweep sweep;
  sweep.name = reader.text("name", std::filesystem::path(path).stem().string());
  if (sweep.name.find('/') != std::string::npos || sweep.name.empty()) reader.fail("name", "must be a plain file name");
  sweep.title = reader.text("title", sweep.name);
  const nlohmann::json defaults = reader.has("defaults") ? reader.object("defaults").json() : nlohmann::json::object();
  const nlohmann::json& grid = reader.raw("grid");
  if (!grid.is_array() || grid.empty()) reader.fail("grid", "must be a list of at least one object");
  reader.no_other_keys();
  std::set<std::string> seen;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::string pointer = "/grid/" + std::to_string(i);
    nlohmann::json entry = grid[i];
    if (entry.is_object())
      for (const auto& item : defaults.items())
        if (!entry.contains(item.key())) entry[item.key()] = item.value();
    for (RunCase& c : expand_case(entry, path, pointer))
      if (seen.insert(digest(to_json(c))).second) sweep.cases.push_back(std::move(c));
  }
  return sweep;
}

std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description) {
  const std::size_t slash = description.find('/');
  std::size_t i = 0, n = 0;
  const auto whole_number = [](const std::string& text, std::size_t& value) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end;
  };
  const bool numbers = slash != std::string::npos && whole_number(description.substr(0, slash), i) &&
                       whole_number(description.substr(slash + 1), n);
  if (!numbers || i >= n || n > 1'000'000'000)
    throw InputError("--shard", "'" + description + "' is not i/n with 0 <= i < n", "write 0/4");
  std::map<std::string, std::size_t> searches;  // a learning-rate search -> its place
  std::vector<RunCase> mine;
  std::size_t places = 0;
  for (RunCase& c : cases) {
    std::size_t place = places;
    if (c.tune) {
      RunCase any_seed = c;
      any_seed.seed = c.tune->seed;
      place = searches.emplace(digest(to_json(any_seed)), places).first->second;
    }
    if (place == places) ++places;
    if (place % n == i) mine.push_back(std::move(c));
  }
  return mine;
}

}  // namespace sluice
