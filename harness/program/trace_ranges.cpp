#include "harness/program/trace_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/base/error.h"
#include "harness/base/numbers.h"

namespace sluice {

static constexpr std::size_t kMaxNameLength = 500;

// torch.distributed.pipelining: record_function of _PipelineScheduleRuntime (the multi-stage schedules), of GPipe, and,
// in profiles with Python functions (with_stack=True), the functions of a stage, as 1F1B has no record_function.
static const std::vector<PatternSet>& patterns_of_pytorch() {
  using enum Opcode;
  const auto runtime = [](const char* kind) { return std::regex(fmt::format("^PP:(\\d+){}(\\d+)$", kind)); };
  static const std::vector<PatternSet> sets = {
      {{forward, runtime("F")},
       {backward, runtime("B")},
       {input_gradient, runtime("I")},
       {weight_gradient, runtime("W")}},
      {{forward, std::regex(R"(^Forward (\d+)$)")}, {backward, std::regex(R"(^Backward (\d+)$)")}},
      {{forward, std::regex(R"(pipelining/stage\.py\(\d+\): forward_one_chunk$)")},
       {backward, std::regex(R"(pipelining/stage\.py\(\d+\): backward_one_chunk$)")},
       {weight_gradient, std::regex(R"(pipelining/stage\.py\(\d+\): backward_weight_one_chunk$)")}}};
  return sets;
}

std::vector<PatternSet> pattern_sets(const RangePatterns& given) {
  PatternSet set;
  const auto add = [&](const std::string& text, const char* flag, Opcode opcode) {
    if (text.empty()) return;
    if (text.size() > kMaxNameLength) throw InputError(flag, "is too long", "give a shorter expression");
    try {
      set.push_back({opcode, std::regex(text)});
    } catch (const std::regex_error&) {
      throw InputError(flag, "'" + text + "' is not a regular expression", "give one such as 'forward_step (\\d+)'");
    }
    if (set.back().expression.mark_count() > 2)
      throw InputError(flag, "'" + text + "' has more than two groups",
                       "give one group for the micro-batch, or two for the stage and the micro-batch");
  };
  add(given.forward, "--forward", Opcode::forward);
  add(given.backward, "--backward", Opcode::backward);
  add(given.input_gradient, "--input-gradient", Opcode::input_gradient);
  add(given.weight_gradient, "--weight-gradient", Opcode::weight_gradient);
  if (set.empty()) return patterns_of_pytorch();
  if (given.forward.empty()) throw InputError("--forward", "is missing", "give it with the other patterns");
  return {set};
}

std::optional<int> stage_in(const std::string& digits) {
  const std::optional<std::int64_t> number = whole_number_in(digits);
  if (!number || *number < 0 || *number >= kMaxTracedStages) return std::nullopt;
  return static_cast<int>(*number);
}

std::vector<NamedOp> ops_named(const std::string& name, const std::vector<PatternSet>& sets) {
  std::vector<NamedOp> found;
  if (name.size() > kMaxNameLength) return found;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const auto add = [&](const std::string& part, bool overlapped) {
      std::smatch groups;
      for (const Pattern& pattern : sets[s]) {
        if (!std::regex_search(part, groups, pattern.expression)) continue;
        NamedOp op{.set = s, .opcode = pattern.opcode, .overlapped = overlapped};
        if (groups.size() > 1) op.micro = groups[groups.size() - 1].str();
        if (groups.size() == 3) op.stage = stage_in(groups[1].str());
        if (groups.size() < 3 || op.stage) found.push_back(op);
        return;
      }
    };
    // _PipelineScheduleRuntime: "PP:(0F3;1B2)OVERLAP_F_B"
    static const std::regex pair(R"(^PP:\((\d+\w\d+);(\d+\w\d+)\)OVERLAP_F_B$)");
    if (std::smatch parts; s == 0 && name.starts_with("PP:(") && std::regex_match(name, parts, pair)) {
      for (const int k : {1, 2}) add("PP:" + parts[static_cast<std::size_t>(k)].str(), k == 1);
    } else {
      add(name, false);
    }
  }
  return found;
}

std::vector<NamedOp> ops_of_sluice(const std::string& name) {
  std::vector<NamedOp> found;
  std::string_view rest = name;
  const bool pair = rest.starts_with('(') && rest.ends_with(')');
  if (pair) rest = rest.substr(1, rest.size() - 2);
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t kind = part.find_first_not_of("0123456789");
    if (kind == std::string_view::npos || kind == 0 || kind + 1 >= part.size()) return {};
    constexpr std::string_view kinds = "FBIWR";
    constexpr std::array opcodes = {Opcode::forward, Opcode::backward, Opcode::input_gradient, Opcode::weight_gradient,
                                    Opcode::recompute};
    const std::size_t at = kinds.find(part[kind]);
    const std::optional<int> stage = stage_in(std::string(part.substr(0, kind)));
    if (at == std::string_view::npos || !stage) return {};
    found.push_back({.opcode = opcodes[at],
                     .stage = stage,
                     .micro = std::string(part.substr(kind + 1)),
                     .overlapped = pair && found.empty()});
  }
  return found.size() == (pair ? 2 : 1) ? found : std::vector<NamedOp>();
}

}  // namespace sluice
