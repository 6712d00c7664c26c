#include "harness/cli/chakra_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "harness/base/json.h"
#include "harness/base/protobuf_message.h"
#include "harness/sim/communication.h"
#include "harness/sim/compute_seconds.h"
#include "harness/sim/message_bytes.h"

namespace sluice {

namespace {

int chakra_group_of(const Instruction& collective) { return collective.channel + 1; }

// The seconds of ops and the bytes of messages and collectives, as the virtual clock takes them.
class InstructionCosts {
 public:
  InstructionCosts(const Program& program, const Costs& costs)
      : program_(program), costs_(costs), message_bytes_(program, costs) {}

  double seconds(const Instruction& i) const {
    if (i.opcode == Opcode::optimizer_step) return costs_.stages[i.stage.index()].update.value;
    return compute_seconds_of(program_, costs_, i.stage, i.micro).of(i);
  }

  std::int64_t message_bytes(const Instruction& i) const {
    return std::max<std::int64_t>(1, std::llround(message_bytes_.of(i)));  // simulators take no empty message
  }

  std::int64_t collective_bytes(const Instruction& i) const {
    const StageCost& cost = costs_.stages[i.stage.index()];
    if (is_all_reduce(i.opcode)) return std::llround(reduced_bytes(program_, i, costs_));
    const auto members = static_cast<std::int64_t>(program_.placement.stages[i.stage.index()].size());
    return i.opcode == Opcode::gather_weights ? (cost.parameters.value + members - 1) / members
                                              : cost.gradients().value;
  }

 private:
  const Program& program_;
  const Costs& costs_;
  MessageBytes message_bytes_;
};

using SentMessages = std::vector<std::vector<std::int64_t>>;  // bytes; per channel, in order

// The nodes of one rank.
class RankNodes {
 public:
  RankNodes(const Program& program, const InstructionCosts& costs, const SentMessages& sent)
      : program_(program), costs_(costs), sent_(sent), next_(program.channels.size(), 0) {}

  std::vector<ChakraNode> of(const std::vector<Instruction>& instructions) {
    for (const Instruction& i : instructions) {
      if (i.opcode == Opcode::free_weights) continue;
      if (is_message(i.opcode))
        add_message(i);
      else if (i.opcode == Opcode::gather_weights || i.opcode == Opcode::reduce_scatter)
        add_beside_the_ops(i);
      else
        add_op(i);
    }
    return std::move(nodes_);
  }

 private:
  // Begins when the rank has come to it: its last op is over and all messages before it are there.
  ChakraNode& add(const Instruction& i, ChakraType type) {
    ChakraNode node;
    node.id = nodes_.size();
    node.name = to_text(i, program_.sequence_chunks);
    node.type = type;
    node.data_deps = reached_;
    nodes_.push_back(std::move(node));
    return nodes_.back();
  }
  static void add_dependency(ChakraNode& node, const std::map<StageId, std::uint64_t>& collectives, StageId stage) {
    const auto found = collectives.find(stage);
    if (found != collectives.end() && std::ranges::count(node.data_deps, found->second) == 0)
      node.data_deps.push_back(found->second);
  }

  void add_message(const Instruction& i) {
    ChakraNode& node = add(i, is_send(i.opcode) ? ChakraType::send : ChakraType::receive);
    const auto c = static_cast<std::size_t>(i.channel);
    node.source = program_.channels[c].from;
    node.destination = program_.channels[c].to;
    node.tag = next_[c]++;
    node.bytes = sent_[c].at(static_cast<std::size_t>(node.tag));
    if (is_receive(i.opcode)) reached_.push_back(node.id);
  }

  void add_beside_the_ops(const Instruction& i) {
    const bool gather = i.opcode == Opcode::gather_weights;
    ChakraNode& node = add_collective(i, gather ? ChakraCollective::all_gather : ChakraCollective::reduce_scatter);
    if (has_engine_ && std::ranges::count(node.data_deps, engine_) == 0) node.data_deps.push_back(engine_);
    has_engine_ = true;
    engine_ = node.id;
    (gather ? gathers_ : scatters_)[i.stage] = node.id;
  }

  ChakraNode& add_collective(const Instruction& i, ChakraCollective collective) {
    ChakraNode& node = add(i, ChakraType::collective);
    node.collective = collective;
    node.group = chakra_group_of(i);
    node.bytes = costs_.collective_bytes(i);
    return node;
  }

  // What occupies the rank: compute, steps and all-reduces.
  void add_op(const Instruction& i) {
    if (is_all_reduce(i.opcode)) {
      reached_ = {add_collective(i, ChakraCollective::all_reduce).id};
      return;
    }
    ChakraNode& node = add(i, ChakraType::compute);
    if (reads_weights(i.opcode)) add_dependency(node, gathers_, i.stage);
    if (makes_weight_gradient(i.opcode) || i.opcode == Opcode::optimizer_step) add_dependency(node, scatters_, i.stage);
    seconds_ += costs_.seconds(i);
    const auto micros = static_cast<std::uint64_t>(std::llround(seconds_ * 1e6));
    node.micros = micros - micros_;
    micros_ = micros;
    reached_ = {node.id};
  }

  const Program& program_;
  const InstructionCosts& costs_;
  const SentMessages& sent_;
  std::vector<std::int32_t> next_;                       // per channel: messages sent or taken so far
  std::vector<std::uint64_t> reached_;                   // the last op, and the messages received since
  std::map<StageId, std::uint64_t> gathers_, scatters_;  // the last of every stage
  bool has_engine_ = false;
  std::uint64_t engine_ = 0;  // the last collective that overlaps the ops: a rank has one at a time
  double seconds_ = 0;        // of the ops so far
  std::uint64_t micros_ = 0;
  std::vector<ChakraNode> nodes_;
};

// Field numbers of et_def.proto.
namespace field {
constexpr int metadata_version = 1;
constexpr int node_id = 1, node_name = 2, node_type = 3, node_data_deps = 5, node_duration_micros = 7, node_attr = 10;
constexpr int attr_name = 1, attr_int32 = 7, attr_int64 = 9, attr_bool = 27, attr_string = 29;
}  // namespace field

ProtobufMessage chakra_attribute(const char* name, int kind, std::int64_t value) {
  ProtobufMessage attribute;
  attribute.text(field::attr_name, name);
  attribute.number_of_oneof(kind, static_cast<std::uint64_t>(value));
  return attribute;
}

ProtobufMessage chakra_attribute(const char* name, const std::string& value) {
  ProtobufMessage attribute;
  attribute.text(field::attr_name, name);
  attribute.text_of_oneof(field::attr_string, value);
  return attribute;
}

ProtobufMessage chakra_message(const ChakraNode& node) {
  ProtobufMessage message;
  const auto attribute = [&](const ProtobufMessage& value) { message.message(field::node_attr, value); };
  message.number(field::node_id, node.id);
  message.text(field::node_name, node.name);
  message.number(field::node_type, static_cast<std::uint64_t>(node.type));
  message.numbers(field::node_data_deps, node.data_deps);
  message.number(field::node_duration_micros, node.micros);
  attribute(chakra_attribute("is_cpu_op", field::attr_bool, 0));
  if (node.type == ChakraType::compute) return message;
  if (node.type == ChakraType::collective) {
    attribute(chakra_attribute("comm_type", field::attr_int64, static_cast<std::int64_t>(node.collective)));
    attribute(chakra_attribute("pg_name", std::to_string(node.group)));
  } else {
    attribute(chakra_attribute("comm_src", field::attr_int32, node.source.value));
    attribute(chakra_attribute("comm_dst", field::attr_int32, node.destination.value));
    attribute(chakra_attribute("comm_tag", field::attr_int32, node.tag));
  }
  attribute(chakra_attribute("comm_size", field::attr_int64, node.bytes));
  return message;
}

}  // namespace

std::vector<std::vector<ChakraNode>> chakra_nodes(const Program& program, const Costs& costs) {
  const InstructionCosts instruction_costs(program, costs);
  SentMessages sent(program.channels.size());
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank)
      if (is_send(i.opcode)) sent[i.channel].push_back(instruction_costs.message_bytes(i));
  std::vector<std::vector<ChakraNode>> result;
  for (const auto& rank : program.ranks) result.push_back(RankNodes(program, instruction_costs, sent).of(rank));
  return result;
}

std::string chakra_file(const std::vector<ChakraNode>& nodes) {
  ProtobufMessage metadata;
  metadata.text(field::metadata_version, "1.0.0");
  std::string file = metadata.delimited();
  for (const ChakraNode& node : nodes) file += chakra_message(node).delimited();
  return file;
}

std::string chakra_groups(const Program& program) {
  const std::vector<std::vector<Rank>> all = collective_groups(program);
  Json groups = Json::object();
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank) {
      if (!is_collective(i.opcode)) continue;
      Json& members = groups[std::to_string(chakra_group_of(i))];
      if (members.is_null())
        for (const Rank member : all[static_cast<std::size_t>(i.channel)]) members.push_back(member.value);
    }
  return groups.empty() ? "" : groups.dump(2) + "\n";
}

}  // namespace sluice
