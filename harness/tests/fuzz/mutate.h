// Changes of an input as they break readers: for machines without libFuzzer, and for the short round of every test run.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace sluice {

// One to eight changes of an entry of the corpus: bits, bytes, pieces taken out, doubled or exchanged with another
// entry, numbers made absurd, brackets opened, the end cut off. The same seed gives the same inputs.
std::string mutated(const std::vector<std::string>& corpus, std::mt19937_64& random);

// All files of a folder, by name.
std::vector<std::string> read_corpus(const std::string& folder);

}  // namespace sluice
