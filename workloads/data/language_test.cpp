// Running text: dictionaries and plain text by hand, and the Jargon File where it has been fetched.
#include "workloads/data/language.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/base/stop.h"
#include "workloads/data/bpe.h"
#include "workloads/data/lines.h"
#include "workloads/data/locate.h"
#include "workloads/data/sentiment.h"
#include "workloads/data/test_files.h"
#include "workloads/data/text.h"

namespace sluice {
namespace {

using Ids = std::vector<std::int32_t>;

// "ab" three times and "abc" twice; a point stands for a word's end. Characters by falling count, ties by bytes: a 5
// (id 4), b. 3 (5), b 2 (6), c. 2 (7). Pairs: a b. 3; then a b and b c. with 2 each, the first of which is older; then
// ab c.
TEST(BytePairMerges, AreThoseOfAHandCountedText) {
  const std::map<std::string, std::int64_t> counts{{"ab", 3}, {"abc", 2}};
  const BytePairs all(counts, 100);
  ASSERT_EQ(all.size(), 11u);  // after three merges no pair is left
  EXPECT_EQ(all.piece(4), "a");
  EXPECT_EQ(all.piece(5), "b");
  EXPECT_EQ(all.piece(6), "b");
  EXPECT_EQ(all.piece(7), "c");
  EXPECT_EQ(all.piece(8), "ab");
  EXPECT_EQ(all.piece(9), "ab");
  EXPECT_EQ(all.piece(10), "abc");
  const std::vector<std::string> words{"ab", "abc", "abb", "cab"};
  EXPECT_EQ(BytePairs(counts, 8).encode(words), (Ids{4, 5, 4, 6, 7, 4, 6, 5, kUnknown, 4, 5}));
  EXPECT_EQ(BytePairs(counts, 9).encode(words), (Ids{8, 4, 6, 7, 4, 6, 5, kUnknown, 8}));
  EXPECT_EQ(all.encode(words), (Ids{8, 10, 9, 5, kUnknown, 8}));
}

class RunningTextTest : public DataFiles {
 protected:
  static constexpr TextLimits kLimits{.source_length = 2, .source_vocabulary = 11, .predicts_next = true};

  std::string error_with(const std::string& index, const std::string& text) const {
    put_text("d.index", index);
    put_text("d.dict", text);
    return error_of([&] { read_dictionary(at("d.index"), at("d.dict")); });
  }
};

TEST_F(RunningTextTest, IsCutIntoSamplesThatPredictTheirNextToken) {
  const DataSplit split =
      encode_running_text({.train = {"ab abc\nab", "Ab abc"}, .validation = {}, .test = {"ab ab ab"}}, kLimits, "here");
  // 8 10 8 </s> 8 10 </s>: three samples of two, and nothing is left.
  EXPECT_EQ(split.train.samples, 3);
  ASSERT_EQ(split.train.columns.size(), 1u);
  EXPECT_EQ(split.train.columns[0].ids, (Ids{8, 10, 8, kEnd, 8, 10}));
  EXPECT_EQ(split.train.targets.ids, (Ids{10, 8, kEnd, 8, 10, kEnd}));
  EXPECT_EQ(split.train.targets.length, 2);
  // 8 8 8 </s>: the last token has no sample of its own.
  EXPECT_EQ(split.test.samples, 1);
  EXPECT_EQ(split.test.targets.ids, (Ids{8, 8}));
  EXPECT_EQ(split.validation.samples, 0);
  EXPECT_TRUE(split.references.empty());
}

TEST_F(RunningTextTest, TheHeldOutPartsTeachNoPairs) {
  const DataSplit split =
      encode_running_text({.train = {"ab ab"}, .validation = {"xy xy"}, .test = {"xy xy xy"}}, kLimits, "here");
  EXPECT_EQ(split.validation.columns[0].ids, (Ids{kUnknown, kUnknown, kUnknown, kUnknown}));
  EXPECT_EQ(split.test.samples, 3);
}

TEST_F(RunningTextTest, TooShortPartsAreNamed) {
  const auto error = [](const RunningText& parts) {
    return error_of([&] { encode_running_text(parts, kLimits, "here"); });
  };
  EXPECT_EQ(error({.train = {"a"}, .validation = {}, .test = {"a a a"}}),
            "here: its training part has no 3 tokens, which the model reads and predicts; give more text");
  EXPECT_TRUE(error({.train = {"ab ab ab"}, .validation = {}, .test = {}}).starts_with("here: its test part has no 3"));
}

TEST(ReadLines, AWordOfAMegabyteIsNone) {
  const std::string path = testing::TempDir() + "language_test_word." + std::to_string(::getpid()) + ".txt";
  std::ofstream(path) << "a b\n" << std::string(65'536, 'a') << " b\n";
  EXPECT_EQ(read_lines(path).size(), 2u);
  std::ofstream(path) << "a b\nc " << std::string(1'000'000, 'a') << " b\n";
  EXPECT_EQ(error_of([&] { read_lines(path); }),
            path + ":2: has a word of 1000000 bytes; is it text? words may have at most 65536");
  std::filesystem::remove(path);
}

TEST(BytePairMerges, AreLearnedNoLongerThanTheCaseMayTake) {
  const StopScope limit(nullptr, Seconds(0));
  std::map<std::string, std::int64_t> counts;
  counts[std::string(1000, 'a')] = 1;
  EXPECT_THROW(BytePairs(counts, 100), Stopped);
}

TEST_F(RunningTextTest, ALongTextIsReadNoLongerThanTheCaseMayTake) {
  std::string text;
  for (int k = 0; k < 1000; ++k) text += "ab abc\n";
  const std::string path = put_text("long.txt", text);
  const StopScope limit(nullptr, Seconds(0));
  EXPECT_THROW(read_lines(path), Stopped);
  EXPECT_THROW(is_utf8(text), Stopped);
  EXPECT_THROW(words_of(text), Stopped);
  EXPECT_THROW(clean_ui_text(text), Stopped);
}

TEST_F(RunningTextTest, ADictionaryIsReadByItsIndex) {
  put_text("d.index", "00-database-info\tA\tE\nbeta\tJ\tF\nalpha\tE\tF\nzeta\tJ\tF\nfar\tBA\tC\n");
  const std::string text = "infoalphabeta." + std::string(50, ' ') + "xy";
  for (const auto& path : {put_text("d.dict", text), put_gz("d.dict.dz", {text.begin(), text.end()})}) {
    const auto entries = read_dictionary(at("d.index"), path);
    ASSERT_EQ(entries.size(), 3u) << path;
    EXPECT_EQ(entries[0].headword, "alpha");
    EXPECT_EQ(entries[0].text, "alpha");
    EXPECT_EQ(entries[1].headword, "beta");  // "zeta" is the same entry
    EXPECT_EQ(entries[1].text, "beta.");
    EXPECT_EQ(entries[2].text, "xy");  // at 64
  }
}

TEST_F(RunningTextTest, BadIndicesAreNamedByLine) {
  EXPECT_TRUE(error_with("a\tA\tB\nb\tA", "text").starts_with(at("d.index") + ":2: has 2 fields"));
  EXPECT_TRUE(error_with("a\tA\t!", "text").starts_with(at("d.index") + ":1: '!' is no number"));
  EXPECT_TRUE(error_with("a\tA\t//////////////", "text").starts_with(at("d.index") + ":1: '//////////////' is no num"));
  EXPECT_TRUE(error_with("a\tA\tB\nb\tB\tE", "text").starts_with(at("d.index") + ":2: its entry ends at byte 5, "));
  EXPECT_TRUE(error_with("a\tA\tB", "\xf6").starts_with(at("d.dict") + ": the entry of 'a' is not UTF-8"));
  EXPECT_TRUE(error_with("00-database-info\tA\tB", "t").starts_with(at("d.index") + ": holds no entries"));
  EXPECT_TRUE(error_with("", "t").starts_with(at("d.index") + ": is empty"));
}

TEST_F(RunningTextTest, TheHeadwordDecidesThePart) {
  std::string index, text;
  std::map<Part, std::int64_t> tokens;
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int id = 0; id < 60; ++id) {
    const std::string headword = std::to_string(id);
    index += headword + "\t" + digits[text.size() / 64] + digits[text.size() % 64] + "\tG\n";
    text += "ab abc";
    tokens[part_of(headword)] += 3;
  }
  put_text("d.index", index);
  put_text("d.dict", text);
  const DataSplit split = load_dataset(folder_, kLimits);
  EXPECT_EQ(split.train.samples, (tokens[Part::train] - 1) / 2);
  EXPECT_EQ(split.validation.samples, (tokens[Part::validation] - 1) / 2);
  EXPECT_EQ(split.test.samples, (tokens[Part::test] - 1) / 2);
}

TEST_F(RunningTextTest, ADictionaryIsOneIndexAndItsText) {
  const auto error = [&] { return error_of([&] { load_dataset(folder_, kLimits); }); };
  put_text("d.index", "a\tA\tB");
  EXPECT_EQ(error(), folder_ +
                         ": holds 1 files *.index and no text with it; give the .index and the .dict.dz of one "
                         "dictionary");
  put_text("e.index", "a\tA\tB");
  EXPECT_TRUE(error().starts_with(folder_ + ": holds 2 files *.index, not one"));
}

TEST_F(RunningTextTest, PlainTextIsReadByParagraphs) {
  EXPECT_EQ(read_paragraphs(put_text("file", "\n\none\ntwo\n \t\r\nthree\n")),
            (std::vector<std::string>{"one\ntwo", "three"}));
  put_text("train.txt", "ab abc\nab\n\nab abc\n");
  put_text("test.txt", "ab ab ab");
  put_text("dev.txt", "abc abc abc abc");
  const DataSplit split = load_dataset(folder_, kLimits);
  EXPECT_EQ(split.train.samples, 3);
  EXPECT_EQ(split.test.samples, 1);
  EXPECT_EQ(split.validation.columns[0].ids, (Ids{10, 10, 10, 10}));
}

TEST_F(RunningTextTest, AModelOfAnotherKindIsToldWhatTheTextIsFor) {
  put_text("train.txt", "ab abc\nab\n\nab abc\n");
  const auto error = [&](const TextLimits& limits) { return error_of([&] { load_dataset(folder_, limits); }); };
  EXPECT_EQ(error({.source_length = 2, .source_vocabulary = 9}),
            folder_ + ": holds running text, the model classifies texts");
  EXPECT_EQ(error({.source_length = 2, .source_vocabulary = 9, .target_length = 2, .target_vocabulary = 9}),
            folder_ + ": holds running text, the model translates");
  std::filesystem::remove(at("train.txt"));
  put_text("train.tsv", "1\tgood\n");
  EXPECT_EQ(error(kLimits), folder_ + ": holds labelled texts, the model predicts the next token");
}

TEST(JargonFile, HasItsPublishedSizeAndThreeParts) {
  const TextLimits limits{.source_length = 32, .source_vocabulary = 1000, .predicts_next = true};
  DataSplit split;
  try {
    split = load_dataset("jargon-file", limits);
  } catch (const InputError& e) {
    GTEST_SKIP() << "the Jargon File is not on this machine: " << e.what();
  }
  const auto entries = read_dictionary(split.source + "/jargon.index", split.source + "/jargon.dict.dz");
  EXPECT_NEAR(static_cast<double>(entries.size()), 2307, 10);
  const double samples = static_cast<double>(split.train.samples + split.validation.samples + split.test.samples);
  EXPECT_NEAR(static_cast<double>(split.test.samples) / samples, 0.1, 0.03);
  EXPECT_NEAR(static_cast<double>(split.validation.samples) / samples, 0.1, 0.03);
  for (const Dataset* part : {&split.train, &split.validation, &split.test}) {
    EXPECT_EQ(std::ranges::count_if(part->columns[0].ids, [](std::int32_t id) { return id < 0 || id >= 1000; }), 0);
    EXPECT_TRUE(std::equal(part->columns[0].ids.begin() + 1, part->columns[0].ids.end(), part->targets.ids.begin()));
    // Characters that are too rare for the vocabulary are not one token in a hundred.
    EXPECT_LT(std::ranges::count(part->columns[0].ids, kUnknown), std::ssize(part->columns[0].ids) / 100);
  }
}

}  // namespace
}  // namespace sluice
