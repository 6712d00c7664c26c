// verify: replays weight-version cases (the format of harness/tests/data/weights.json: K stages of
// one scalar weight and bias, exact expected weights after every update) through the real executor
// with the real layers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice {

struct VerifyResult {
  std::string name;
  enum class Verdict { pass, mismatch, unsupported } verdict = Verdict::pass;
  double largest_error = 0;  // |ours - expected| over all weights and losses
  std::string detail;        // first mismatch, or why it is unsupported
};

// `only`: a name or a prefix ending in '*'; empty: all. Throws InputError for a file that is not
// such a file.
std::vector<VerifyResult> verify(const nlohmann::json& cases, const std::string& file, double tolerance,
                                 const std::vector<std::string>& only);

}  // namespace sluice
