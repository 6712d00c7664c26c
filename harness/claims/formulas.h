// Closed formulas as papers print them, by name, for claims: what a figure must be.
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

}  // namespace sluice
