#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/cli/commands.h"
#include "harness/pipeline/system.h"

namespace sluice {

// A valid system to start from: GPipe's order, one stage a device. It builds and passes the contract test as it is.
static constexpr const char* kBaseline =
    R"(// TITLE (authors, venue, year, arXiv), section N: what is implemented, and the schedule as the paper draws it.
// p = 2, m = 2:
//
//   rank 0  F0 F1       B1 B0
//   rank 1     F0 F1 B1 B0
#include "harness/pipeline/orders.h"

namespace sluice {{

static Schedule {0}_schedule(const ScheduleProblem& problem, const Options&) {{
  Schedule schedule = empty_schedule(problem);
  const int m = problem.microbatches;
  for (int s = 0; s < problem.stages(); ++s) {{
    auto& ops = schedule.ops(problem.rank_of(s));
    for (int i = 0; i < m; ++i) ops.push_back(forward_op(s, i));
    for (int i = m - 1; i >= 0; --i) ops.push_back(backward_op(s, i));
  }}
  return schedule;
}}

static Theory {0}_theory(const ScheduleProblem& problem, const Options&) {{
  Theory theory = flush_theory(problem.ranks);
  theory.bubble_ratio = fill_drain_bubble(problem.ranks, problem.microbatches);
  theory.in_flight.assign(problem.ranks, problem.microbatches);
  return theory;
}}

extern const System {0} = {{
    .name = "{0}",
    .title = "{0}",
    .citation = "authors, title, venue, year",
    .schedule = {0}_schedule,
    .theory = {0}_theory,
}};

}}  // namespace sluice
)";

int new_command(const NewArguments& a) {
  const std::vector<std::string> kinds = {"baseline"};
  if (a.what != "baseline") throw InputError("new", "unknown kind '" + a.what + "'", suggestion(a.what, kinds));
  const bool plain = !a.name.empty() && a.name[0] >= 'a' && a.name[0] <= 'z' && std::ranges::all_of(a.name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!plain)
    throw InputError("new", "'" + a.name + "' is not a name", "use lower-case letters, digits and _, a letter first");
  const std::vector<std::string> reserved = {
      "alignas", "alignof", "and",      "asm",      "auto",     "bool",     "break",    "case",     "catch",
      "char",    "class",   "concept",  "const",    "continue", "decltype", "default",  "delete",   "do",
      "double",  "else",    "enum",     "explicit", "export",   "extern",   "false",    "float",    "for",
      "friend",  "goto",    "if",       "inline",   "int",      "long",     "mutable",  "new",      "noexcept",
      "not",     "nullptr", "operator", "or",       "private",  "public",   "register", "return",   "requires",
      "short",   "signed",  "sizeof",   "sluice",   "std",      "static",   "struct",   "switch",   "template",
      "this",    "throw",   "true",     "try",      "typedef",  "typename", "union",    "unsigned", "using",
      "virtual", "void",    "while",    "xor"};
  if (std::ranges::count(reserved, a.name) > 0)
    throw InputError("new", "'" + a.name + "' is a word of C++", "choose another name");
  for (const char* ending : {"_test", "_bench"})
    if (a.name.ends_with(ending))
      throw InputError("new", "'" + a.name + "' would be taken for a test or a benchmark",
                       std::string("leave ") + ending + " out");
  for (const System* system : all_systems())
    if (system->name == a.name || std::ranges::count(system->aliases, a.name) > 0)
      throw InputError("new", "there is a system '" + a.name + "' already");
  const std::string file = source_folder() + "/baselines/" + a.name + ".cpp";
  if (std::filesystem::exists(file)) throw InputError(file, "exists already");
  std::ofstream out(file);
  out << fmt::format(kBaseline, a.name);
  out.flush();
  if (!out) throw InputError(file, "cannot be written");
  fmt::print("wrote {}\nbuild again, then: sluice schedule --system {} --text\n",
             std::filesystem::relative(file).string(), a.name);
  return 0;
}

}  // namespace sluice
