// Lengths of samples or sizes of micro-batches in a flag: a list, or a distribution that they are drawn from.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// "9,7,3,3,1" (counts_in), or N whole numbers, drawn and rounded, at least 1:
//
//   uniform:N,shortest=A,longest=B[,seed=K]        each of A to B as likely
//   lognormal:N,median=M,sigma=S[,longest=B][,seed=K]   M exp(S z), z of the standard normal distribution; at most B
//
// The same text gives the same lengths in every run (the default seed is 1); other mathematics libraries may round
// one of them differently. Throws InputError at `flag`.
std::vector<int> lengths_in(const std::string& text, const std::string& flag);

}  // namespace sluice
