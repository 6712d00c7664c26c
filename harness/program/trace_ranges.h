// The names of a trace's ranges: the compute op of an event.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "harness/program/program.h"
#include "harness/program/range_patterns.h"

namespace sluice {

inline constexpr int kMaxTracedStages = 65'536;

struct Pattern {
  Opcode opcode;
  std::regex expression;
};
// Patterns of one kind of trace. The first set that matches forwards of the trace is used: a range of schedules.py
// contains one of stage.py.
using PatternSet = std::vector<Pattern>;

// The compute op in an event's name.
struct NamedOp {
  std::size_t set = 0;
  Opcode opcode = Opcode::forward;
  std::optional<int> stage;
  std::string micro;
  bool overlapped = false;  // with the next op, the first of a pair
};

// The given patterns, or those of PyTorch, in the order in which they are tried. Throws InputError.
std::vector<PatternSet> pattern_sets(const RangePatterns& given);

// In order: for every set, the first of its patterns that the name matches. Two of one set: an overlapped pair.
std::vector<NamedOp> ops_named(const std::string& name, const std::vector<PatternSet>& sets);

// An op's text in a trace of sluice: "5I2", or a pair, "(5F1;2B0)". Empty for any other text.
std::vector<NamedOp> ops_of_sluice(const std::string& name);

std::optional<int> stage_in(const std::string& digits);  // none: no number, or too large

}  // namespace sluice
