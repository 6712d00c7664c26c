#include "workloads/data/bleu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>

namespace sluice {

namespace {

constexpr std::size_t kOrders = 4;
using Words = std::span<const std::string>;

std::map<std::vector<std::string>, int> grams(Words words, std::size_t order) {
  std::map<std::vector<std::string>, int> counts;
  for (std::size_t i = 0; i + order <= words.size(); ++i) {
    const Words gram = words.subspan(i, order);
    ++counts[{gram.begin(), gram.end()}];
  }
  return counts;
}

}  // namespace

double corpus_bleu(std::span<const std::vector<std::string>> hypotheses,
                   std::span<const std::vector<std::string>> references) {
  if (hypotheses.size() != references.size())
    throw std::invalid_argument("corpus_bleu: one reference a hypothesis is needed");
  std::array<double, kOrders> matches{}, totals{};
  double ours = 0, theirs = 0;
  for (std::size_t s = 0; s < hypotheses.size(); ++s) {
    ours += static_cast<double>(hypotheses[s].size());
    theirs += static_cast<double>(references[s].size());
    for (std::size_t n = 0; n < kOrders; ++n) {
      const auto reference = grams(references[s], n + 1);
      for (const auto& [gram, count] : grams(hypotheses[s], n + 1)) {
        const auto found = reference.find(gram);
        totals[n] += count;
        if (found != reference.end()) matches[n] += std::min(count, found->second);
      }
    }
  }
  double log_precision = 0, halvings = 1;
  for (std::size_t n = 0; n < kOrders; ++n) {
    if (totals[n] == 0) return 0;
    if (matches[n] == 0) halvings *= 2;
    const double precision = (matches[n] > 0 ? matches[n] : 1 / halvings) / totals[n];
    log_precision += std::log(precision) / kOrders;
  }
  const double brevity = ours < theirs ? std::exp(1 - theirs / ours) : 1;
  return 100 * brevity * std::exp(log_precision);
}

}  // namespace sluice
