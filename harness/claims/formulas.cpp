// Closed formulas as papers print them, by name, for claims: what a figure must be.
#include <map>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/claims/measure.h"

namespace sluice {

namespace {

using Arguments = const std::map<std::string, double>&;

struct NamedFormula {
  std::string name;
  std::string source;
  std::vector<std::string> arguments;  // all must be given
  double (*value)(Arguments arguments);
};

const std::vector<NamedFormula>& formulas() {
  static const std::vector<NamedFormula> all = {
      {"fill and drain bubble ratio",
       "Huang et al., NeurIPS 2019; Narayanan et al., SC 2021, section 2.2",
       {"p", "m"},
       [](Arguments a) { return (a.at("p") - 1) / (a.at("m") + a.at("p") - 1); }},
      {"interleaved bubble over work",
       "Narayanan et al., SC 2021, section 2.2",
       {"p", "m", "v"},
       [](Arguments a) { return (a.at("p") - 1) / (a.at("m") * a.at("v")); }},
      {"zero bubble B over 3",
       "README of sail-sg/zero-bubble-pipeline-parallelism",
       {"p", "m"},
       [](Arguments a) { return (a.at("p") - 1) / (a.at("m") + a.at("p") - 1) / 3; }},
      {"zero bubble 2B over 3",
       "README of sail-sg/zero-bubble-pipeline-parallelism",
       {"p", "m"},
       [](Arguments a) { return 2 * (a.at("p") - 1) / (a.at("m") + a.at("p") - 1) / 3; }},
      {"zero bubble B over 2",
       "README of sail-sg/zero-bubble-pipeline-parallelism",
       {"p", "m"},
       [](Arguments a) { return (a.at("p") - 1) / (a.at("m") + a.at("p") - 1) / 2; }},
      {"1F1B bubble",
       "Qi et al., ICLR 2024, Table 2",
       {"p", "F", "I", "W"},
       [](Arguments a) { return (a.at("p") - 1) * (a.at("F") + a.at("I") + a.at("W")); }},
      {"ZB-H1 bubble",
       "Qi et al., ICLR 2024, Table 2",
       {"p", "F", "I", "W"},
       [](Arguments a) { return (a.at("p") - 1) * (a.at("F") + a.at("I") - a.at("W")); }},
      {"ZB-H2 bubble",
       "Qi et al., ICLR 2024, Table 2",
       {"p", "F", "I", "W"},
       [](Arguments a) { return (a.at("p") - 1) * (a.at("F") + a.at("I") - 2 * a.at("W")); }},
      {"1F1B activations",
       "Qi et al., ICLR 2024, Table 2",
       {"p", "MB"},
       [](Arguments a) { return a.at("p") * a.at("MB"); }},
      {"ZB-H1 activations",
       "Qi et al., ICLR 2024, Table 2",
       {"p", "MB"},
       [](Arguments a) { return a.at("p") * a.at("MB"); }},
      {"ZB-H2 activations",
       "Qi et al., ICLR 2024, Table 2",
       {"p", "MB"},
       [](Arguments a) { return (2 * a.at("p") - 1) * a.at("MB"); }},
      {"DualPipe bubble",
       "README of deepseek-ai/DualPipe: (PP/2-1)(F&B+B-3W), B the whole backward",
       {"p", "pair", "B", "W"},
       [](Arguments a) { return (a.at("p") / 2 - 1) * (a.at("pair") + a.at("B") - 3 * a.at("W")); }},
      {"Chimera bubble ratio",
       "Li and Hoefler, SC 2021, Table 2",
       {"p", "m"},
       [](Arguments a) { return (a.at("p") - 2) / (2 * a.at("m") + a.at("p") - 2); }},
      {"Chimera bubble ratio at B = 2 F",
       "Li and Hoefler, SC 2021, section 3.4",
       {"p", "m"},
       [](Arguments a) { return (a.at("p") - 2) / (1.5 * a.at("m") + a.at("p") - 2); }},
      {"BitPipe bubble ratio",
       "Wu et al., 2024, arXiv 2410.19367: remembered, and derived from the released code's order",
       {"p", "m"},
       [](Arguments a) { return (a.at("p") - 2) / (4 * a.at("m") + a.at("p") - 2); }},
      {"Hanayo bubble ratio",
       "Liu et al., SC 2023: (2P-2)/(3PW+P-1)",
       {"p", "w"},
       [](Arguments a) { return (2 * a.at("p") - 2) / (3 * a.at("p") * a.at("w") + a.at("p") - 1); }},
      {"breadth-first overhead",
       "Lamy-Poirier, MLSys 2023: (N_PP-1)/(N_mb N_loop) of the ideal time",
       {"p", "m", "v"},
       [](Arguments a) { return (a.at("p") - 1) / (a.at("m") * a.at("v")); }},
      {"update seconds at a utilization",
       "floating-point operations of an update over those of p devices at their peak",
       {"flop", "p", "peak", "utilization"},
       [](Arguments a) { return a.at("flop") / (a.at("p") * a.at("peak") * a.at("utilization")); }},
      {"GPipe Transformer parameters",
       "Huang et al., NeurIPS 2019, Table 1: width 2048, 32 thousand words, untied",
       {"layers", "vocabulary"},
       [](Arguments a) { return 12 * 2048.0 * 2048 * a.at("layers") + 2 * 2048 * a.at("vocabulary"); }},
      {"GPipe Transformer parameter GiB",
       "Huang et al., NeurIPS 2019, Table 1: 12 bytes a parameter",
       {"layers", "vocabulary"},
       [](Arguments a) {
         return 12 * (12 * 2048.0 * 2048 * a.at("layers") + 2 * 2048 * a.at("vocabulary")) / (1 << 30);
       }},
  };
  return all;
}

// Throws InputError at `where` for a name that is not known, with a suggestion.
const NamedFormula& find_formula(const std::string& name, const std::string& where) {
  for (const NamedFormula& formula : formulas())
    if (formula.name == name) return formula;
  throw InputError(where, "unknown formula '" + name + "'", suggestion(name, formula_names()));
}

}  // namespace

std::vector<std::string> formula_names() { return names_of(formulas()); }

Figure read_formula(JsonReader& reader) {
  const NamedFormula& formula = find_formula(reader.text("formula"), reader.where("formula"));
  std::map<std::string, double> arguments;
  for (const std::string& name : formula.arguments) arguments[name] = reader.number(name, -kMaxNumber, kMaxNumber);
  const double scale = reader.number_or("scale", 1, -kMaxNumber, kMaxNumber);
  return {scale * formula.value(arguments), {}};
}

}  // namespace sluice
