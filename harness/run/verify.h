// verify: replays weight-version cases (weight_case.h) through the real executor with the real layers, and compares the
// versions that every forward and backward reads, all weights and all losses.
#pragma once

#include <string>
#include <vector>

namespace sluice {

class Json;

struct VerifyResult {
  std::string name;
  enum class Verdict { pass, mismatch, unsupported } verdict = Verdict::pass;
  double largest_error = 0;  // |ours - expected| over all weights and losses
  std::string detail;        // first difference, or why it is unsupported
};

// tolerance: max absolute error of a weight or a loss. only: names, or prefixes ending in '*'; empty: all. Throws
// InputError for a file of another kind.
std::vector<VerifyResult> verify(const Json& cases, const std::string& file, double tolerance,
                                 const std::vector<std::string>& only);

}  // namespace sluice
