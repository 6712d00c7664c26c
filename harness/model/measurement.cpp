#include "harness/model/measurement.h"

#include <utility>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

namespace {

constexpr std::pair<const char*, PassMeasurement LayerMeasurement::*> kPasses[] = {
    {"forward", &LayerMeasurement::forward},
    {"unstashed", &LayerMeasurement::unstashed},
    {"input_gradient", &LayerMeasurement::input_gradient},
    {"weight_gradient", &LayerMeasurement::weight_gradient},
    {"update", &LayerMeasurement::update}};
constexpr std::pair<const char*, std::string MachineCosts::*> kTexts[] = {
    {"machine", &MachineCosts::machine}, {"build", &MachineCosts::build}, {"made", &MachineCosts::made}};
constexpr std::pair<const char*, Seconds MachineCosts::*> kSeconds[] = {
    {"send", &MachineCosts::send},
    {"receive", &MachineCosts::receive},
    {"wake_up", &MachineCosts::wake_up},
    {"spin_time", &MachineCosts::spin_time},
    {"notify", &MachineCosts::notify},
    {"forward_op", &MachineCosts::forward_op},
    {"backward_op", &MachineCosts::backward_op},
    {"weight_gradient_op", &MachineCosts::weight_gradient_op}};
constexpr std::pair<const char*, double MachineCosts::*> kPerByte[] = {{"copy", &MachineCosts::copy},
                                                                       {"reduce", &MachineCosts::reduce},
                                                                       {"gather", &MachineCosts::gather},
                                                                       {"scatter", &MachineCosts::scatter},
                                                                       {"predict", &MachineCosts::predict}};
constexpr std::pair<const char*, double MachineCosts::Apart::*> kApart[] = {
    {"forward", &MachineCosts::Apart::forward},
    {"input_gradient", &MachineCosts::Apart::input_gradient},
    {"weight_gradient", &MachineCosts::Apart::weight_gradient}};
constexpr std::pair<const char*, double BetweenProcesses::*> kBetweenProcesses[] = {
    {"byte", &BetweenProcesses::byte},
    {"reduce", &BetweenProcesses::reduce},
    {"gather", &BetweenProcesses::gather},
    {"scatter", &BetweenProcesses::scatter}};

}  // namespace

Json to_json(const LayerMeasurement& measured) {
  Json json = {{"clear", measured.clear.value}, {"keeps_output", measured.keeps_output}};
  for (const auto& [name, member] : kPasses) {
    const PassMeasurement& pass = measured.*member;
    json[name] = {{"contended", pass.contended},
                  {"half", pass.half},
                  {"spread", pass.spread},
                  {"peak", pass.peak.value},
                  {"left", pass.left.value}};
  }
  if (measured.batched_weight_gradient) json["batched_weight_gradient"] = measured.batched_weight_gradient->value;
  if (measured.split_weight_gradient) json["split_weight_gradient"] = measured.split_weight_gradient->value;
  return json;
}

LayerMeasurement layer_measurement_from_json(JsonReader& reader) {
  LayerMeasurement measured;
  measured.clear = Seconds(reader.number("clear", 0, kMaxSeconds));
  measured.keeps_output = reader.boolean("keeps_output", false);
  for (const auto& [name, member] : kPasses) {
    JsonReader pass = reader.object(name);
    PassMeasurement& m = measured.*member;
    m.contended = pass.above_zero("contended", kMaxNumber);
    if (pass.has("half")) m.half = pass.above_zero("half", kMaxNumber);  // absent: of an earlier version
    m.spread = pass.number("spread", 0, kMaxNumber);
    m.peak = Bytes(pass.integer<std::int64_t>("peak", 0, kMaxBytes));
    m.left = Bytes(
        pass.integer<std::int64_t>("left", -kMaxBytes, kMaxBytes));  // negative where a pass frees more than it makes
    pass.no_other_keys();
  }
  if (reader.has("batched_weight_gradient"))
    measured.batched_weight_gradient = Seconds(reader.number("batched_weight_gradient", 0, kMaxSeconds));
  if (reader.has("split_weight_gradient"))
    measured.split_weight_gradient = Seconds(reader.number("split_weight_gradient", 0, kMaxSeconds));
  reader.no_other_keys();
  return measured;
}

Json to_json(const MachineCosts& machine) {
  Json json = {{"neighbours", machine.neighbours}, {"batched_microbatches", machine.batched_microbatches}};
  for (const auto& [name, member] : kTexts) json[name] = machine.*member;
  for (const auto& [name, member] : kSeconds) json[name] = (machine.*member).value;
  for (const auto& [name, member] : kPerByte) json[name] = machine.*member;
  for (const auto& [name, member] : kApart) json["apart"][name] = machine.apart.*member;
  json["processes"] = to_json(machine.processes);
  return json;
}

Json to_json(const BetweenProcesses& processes) {
  Json json = {{"message", processes.message.value}};
  for (const auto& [name, member] : kBetweenProcesses) json[name] = processes.*member;
  return json;
}

BetweenProcesses between_processes_from_json(JsonReader& reader) {
  BetweenProcesses processes;
  processes.message = Seconds(reader.number("message", 0, kMaxSeconds));
  for (const auto& [name, member] : kBetweenProcesses) processes.*member = reader.number(name, 0, kMaxSeconds);
  reader.no_other_keys();
  return processes;
}

MachineCosts machine_costs_from_json(JsonReader& reader) {
  MachineCosts machine;
  machine.neighbours = reader.integer<int>("neighbours", 0, kMaxCount);
  if (reader.has("batched_microbatches"))  // absent: of an earlier version
    machine.batched_microbatches = reader.integer<int>("batched_microbatches", 0, kMaxCount);
  for (const auto& [name, member] : kTexts) machine.*member = reader.text(name);
  for (const auto& [name, member] : kSeconds) machine.*member = Seconds(reader.number(name, 0, kMaxSeconds));
  for (const auto& [name, member] : kPerByte) machine.*member = reader.number(name, 0, kMaxSeconds);
  if (reader.has("apart")) {  // absent: of an earlier version
    JsonReader apart = reader.object("apart");
    for (const auto& [name, member] : kApart) machine.apart.*member = apart.above_zero(name, kMaxNumber);
    apart.no_other_keys();
  }
  if (reader.has("processes")) {  // absent: of an earlier version
    JsonReader processes = reader.object("processes");
    machine.processes = between_processes_from_json(processes);
  }
  for (const char* name : {"process_message", "process_byte"})  // of an earlier version, which never measured them
    if (reader.has(name)) reader.number(name, 0, kMaxSeconds);
  reader.no_other_keys();
  return machine;
}

}  // namespace sluice
