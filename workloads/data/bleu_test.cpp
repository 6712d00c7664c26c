// BLEU by hand.
#include "workloads/data/bleu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "workloads/data/text.h"

namespace sluice {
namespace {

double bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  std::vector<std::vector<std::string>> ours, theirs;
  for (const std::string& text : hypotheses) ours.push_back(words_of(text));
  for (const std::string& text : references) theirs.push_back(words_of(text));
  return corpus_bleu(ours, theirs);
}

TEST(Bleu, IsOneHundredForTheReferenceItself) {
  EXPECT_DOUBLE_EQ(bleu({"the cat sat on the mat"}, {"the cat sat on the mat"}), 100);
}

TEST(Bleu, CountsEachNgramAtMostAsOftenAsTheReference) {
  // The paper's example: "the" seven times against two. Orders 2 to 4 have no match: smoothed by 1/2, 1/4, 1/8 of one.
  // Precisions 2/7, (1/2)/6, (1/4)/5, (1/8)/4; no brevity penalty (7 >= 6).
  const double expected = 100 * std::pow(2.0 / 7 * (0.5 / 6) * (0.25 / 5) * (0.125 / 4), 0.25);
  EXPECT_NEAR(bleu({"the the the the the the the"}, {"the cat is on the mat"}), expected, 1e-9);
}

TEST(Bleu, PunishesBrevity) {
  // All n-grams match: precisions 1; 4 words against 6.
  EXPECT_NEAR(bleu({"the cat sat on"}, {"the cat sat on the mat"}), 100 * std::exp(1 - 6.0 / 4), 1e-9);
  // Longer ones are punished by precision alone: 6/8, 5/7, 4/6, 3/5.
  EXPECT_NEAR(bleu({"the cat sat on the mat with me"}, {"the cat sat on the mat"}),
              100 * std::pow(6.0 / 8 * 5 / 7 * 4 / 6 * 3 / 5, 0.25), 1e-9);
}

TEST(Bleu, AddsUpOverTheCorpus) {
  // Matches 5 + 1 of 6 + 1, 3 of 5 + 0, 2 of 4, 1 of 3; lengths are equal. Not the mean of two BLEUs: the second alone
  // has no 2-gram.
  EXPECT_NEAR(bleu({"a b c d x f", "open"}, {"a b c d e f", "open"}),
              100 * std::pow(6.0 / 7 * 3 / 5 * 2 / 4 * 1 / 3, 0.25), 1e-9);
}

TEST(Bleu, IsZeroWithoutAFourGramToCount) {
  EXPECT_EQ(bleu({"one two three"}, {"one two three"}), 0);
  EXPECT_EQ(bleu({""}, {"one two"}), 0);
}

TEST(Bleu, NeedsAReferenceForEverySentence) {
  const std::vector<std::vector<std::string>> one(1), two(2);
  EXPECT_THROW(corpus_bleu(one, two), std::invalid_argument);
}

}  // namespace
}  // namespace sluice
