// Closed formulas as papers print them, by name, for claims: what a figure must be (a published formula), or what
// Sluice computes where no schedule has to be run (the sizes of a transformer).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sluice {

struct NamedFormula {
  std::string name;
  std::string source;
  std::vector<std::string> arguments;  // all must be given
  double (*value)(const std::map<std::string, double>& arguments);
};

// Throws InputError at `where` for a name that is not known, with a suggestion.
const NamedFormula& find_formula(const std::string& name, const std::string& where);

// Of one transformer layer in 16-bit precision, without recomputation, with the score matrix kept (Korthikanti et al.,
// MLSys 2023; Qi et al., ICLR 2024, Table 1). b samples, s tokens, hidden size h, a heads.
double transformer_stash_bytes(double b, double s, double h, double a);  // until the input gradient
double transformer_weight_stash_bytes(double b, double s, double h);     // from then until the weight gradient
double transformer_layer_parameters(double h);                           // with biases and norms

}  // namespace sluice
