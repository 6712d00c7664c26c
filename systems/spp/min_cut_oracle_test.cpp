// Boost.Graph's minimum cut, which is written by others, as the oracle of ours on graphs too large
// to try every cut of. Built where Boost's headers are (libboost-dev).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/stoer_wagner_min_cut.hpp>

#include "systems/spp/min_cut.h"

namespace sluice {
namespace {

double boost_min_cut(const SquareMatrix& weights) {
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                                      boost::property<boost::edge_weight_t, int>>;
  Graph graph(weights.size());
  for (std::size_t a = 0; a < weights.size(); ++a)
    for (std::size_t b = a + 1; b < weights.size(); ++b)
      if (weights.at(a, b) > 0) boost::add_edge(a, b, static_cast<int>(weights.at(a, b)), graph);
  return boost::stoer_wagner_min_cut(graph, boost::get(boost::edge_weight, graph));
}

RC_GTEST_PROP(MinCutOracleTest, BoostFindsTheSameWeight, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(2, 33);
  const int heaviest = *rc::gen::element(1, 10, 100000);
  const int density = *rc::gen::inRange(1, 11);  // tenths
  SquareMatrix weights(n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b)
      if (*rc::gen::inRange(0, 10) < density) weights.at(a, b) = weights.at(b, a) = *rc::gen::inRange(1, heaviest + 1);
  RC_ASSERT(min_cut(weights).weight == boost_min_cut(weights));
}

}  // namespace
}  // namespace sluice
