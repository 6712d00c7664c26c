// Provenance: the sources of an implementation, so that a reader can tell a published method from a reconstruction.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/base/choice.h"

namespace sluice {

enum class WrittenFrom {
  paper,     // read in the paper
  code,      // read in released code, or in its authors' pages about it
  abstract,  // only the abstract of the paper, or texts of others about it, could be read
  memory,    // remembered from the paper
  ours       // our own construction
};
template <>
struct Choices<WrittenFrom> {
  static constexpr Choice<WrittenFrom> all[] = {{WrittenFrom::paper, "paper"},
                                                {WrittenFrom::code, "code"},
                                                {WrittenFrom::abstract, "abstract"},
                                                {WrittenFrom::memory, "memory"},
                                                {WrittenFrom::ours, "ours"}};
};

struct Provenance {
  struct Part {
    std::string name;  // "planner", "variant=auto"
    WrittenFrom from;
  };

  // There is no default, so that a system without it does not compile.
  Provenance(WrittenFrom whole, std::vector<Part> other_parts = {}, std::string our_share = {})
      : system(whole), parts(std::move(other_parts)), ours(std::move(our_share)) {}

  WrittenFrom system;       // source of all except `parts`
  std::vector<Part> parts;  // parts with another source
  std::string ours;         // what is our own, in one short sentence; empty: nothing
};

// Each source once, the system's first: "code, memory".
std::string sources_text(const Provenance& provenance);
// "code; planner: memory".
std::string parts_text(const Provenance& provenance);

}  // namespace sluice
