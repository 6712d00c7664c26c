// BLEU (Papineni, Roukos, Ward, Zhu, ACL 2002): corpus BLEU-4 with brevity penalty, one reference a sentence, in
// percent.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

// Precisions of 1- to 4-grams over the whole corpus, each n-gram counted at most as often as its reference has it;
// their geometric mean times exp(1 - r / c) where the hypotheses' words c are fewer than the references' r. Smoothing
// (sacreBLEU's default, "exp"; Chen and Cherry 2014, method 3): the k-th order without a match counts as 1 / (2^k
// n-grams). An order of which the hypotheses have no n-gram at all makes BLEU 0. Throws std::invalid_argument if the
// numbers of sentences differ.
double corpus_bleu(std::span<const std::vector<std::string>> hypotheses,
                   std::span<const std::vector<std::string>> references);

}  // namespace sluice
