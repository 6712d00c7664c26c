// Labelled sentences: formats by hand, and the movie reviews where they have been fetched.
#include "workloads/data/sentiment.h"

#include <algorithm>
#include <set>

#include "harness/base/expect_error.h"
#include "workloads/data/locate.h"
#include "workloads/data/test_files.h"
#include "workloads/data/text.h"

namespace sluice {
namespace {

class SentimentTest : public DataFiles {
 protected:
  std::string error_with(const std::string& text, bool rated = true) const {
    const std::string path = put_text("file", text);
    const std::string message = error_of([&] { rated ? read_rated_sentences(path) : read_labelled_lines(path); });
    EXPECT_TRUE(message.starts_with(path)) << message;
    return message.substr(path.size());
  }
};

TEST_F(SentimentTest, LabelsAreSignsAndZeroIsNone) {
  const auto texts =
      read_rated_sentences(put_text("file", "1\t2.25\tGood.\r\n2\t0\tSo so.\r\n3\t-0.5\tBad, it's \"bad\"."));
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].id, "1");
  EXPECT_EQ(texts[0].label, 1);
  EXPECT_EQ(texts[1].text, "Bad, it's \"bad\".");
  EXPECT_EQ(texts[1].label, 0);
}

TEST_F(SentimentTest, BadRatedLinesAreNamed) {
  EXPECT_TRUE(error_with("1\t2\ttext\n2\t3").starts_with(":2: has 2 fields"));
  EXPECT_TRUE(error_with("1\tgood\ttext").starts_with(":1: rating 'good' is not a number"));
  EXPECT_TRUE(error_with("1\t5\ttext").starts_with(":1: rating '5'"));
  EXPECT_TRUE(error_with("1\tnan\ttext").starts_with(":1: rating 'nan'"));
  EXPECT_TRUE(error_with("1\t1\tok\n2\t1\tGr\xf6\xdf\n").starts_with(":2: is not UTF-8"));
  EXPECT_TRUE(error_with("").starts_with(": is empty"));
  EXPECT_TRUE(error_with("\n\n").starts_with(": holds no lines"));
}

TEST_F(SentimentTest, ReadsLabelledLinesWithAndWithoutHeader) {
  for (const char* text :
       {"1\tgood\n0\tbad\n", "label\ttext\npos\tgood\nneg\tbad", "sentiment\treview\npositive\tgood\nnegative\tbad\n",
        "sentence\tlabel\ngood\t1\nbad\t0\n"}) {
    const auto texts = read_labelled_lines(put_text("file", text));
    ASSERT_EQ(texts.size(), 2u) << text;
    EXPECT_EQ(texts[0].text, "good");
    EXPECT_EQ(texts[0].label, 1);
    EXPECT_EQ(texts[1].label, 0);
  }
}

TEST_F(SentimentTest, BadLabelledLinesAreNamed) {
  EXPECT_TRUE(error_with("1\tgood\n7\tbad", false).starts_with(":2: label '7' is none"));
  EXPECT_TRUE(error_with("1\tgood\nbad", false).starts_with(":2: has 1 fields"));
  EXPECT_TRUE(error_with("label\ttext\n", false).starts_with(": holds no samples"));
}

TEST_F(SentimentTest, VocabularyComesFromTrainingAndLengthsAreFixed) {
  put_text("train.tsv", "1\tgood good film\n0\tbad film bad\n1\trare\n");
  put_text("test.tsv", "0\tbad unseen good film\n1\t \n");
  const DataSplit split = load_dataset(folder_, {.source_length = 3, .source_vocabulary = 100});
  // film 2, good 2, bad 2 (by bytes: bad, film, good); rare occurs once.
  EXPECT_EQ(split.train.columns[0].ids, (std::vector<std::int32_t>{6, 6, 5, 4, 5, 4, kUnknown, kPad, kPad}));
  EXPECT_EQ(split.test.columns[0].ids, (std::vector<std::int32_t>{4, kUnknown, 6, kUnknown, kPad, kPad}));
  EXPECT_EQ(split.test.labels, (FileBytes{0, 1}));
  EXPECT_EQ(split.validation.samples, 0);
  std::vector<std::int64_t> ids(6);
  const std::vector<std::int64_t> order{2, 0};
  split.train.fill_tokens(0, order, ids.data());
  EXPECT_EQ(ids, (std::vector<std::int64_t>{kUnknown, kPad, kPad, 6, 6, 5}));
}

TEST_F(SentimentTest, TheSecretTestPartOfGlueIsNotUsed) {
  put_text("train.tsv", "sentence\tlabel\ngood\t1\n");
  put_text("dev.tsv", "sentence\tlabel\ngood\t1\nbad\t0\nworse\t0\n");
  put_text("test.tsv", "index\tsentence\n0\tgood\n");
  const DataSplit split = load_dataset(folder_, {.source_length = 3, .source_vocabulary = 100});
  EXPECT_EQ(split.test.samples, 3);
  EXPECT_EQ(split.validation.samples, 0);
  put_text("test.tsv", "sentence\tlabel\ngood\t1\n");
  const DataSplit own = load_dataset(folder_, {.source_length = 3, .source_vocabulary = 100});
  EXPECT_EQ(own.test.samples, 1);
  EXPECT_EQ(own.validation.samples, 3);
}

TEST_F(SentimentTest, MissingPartsAreNamed) {
  put_text("train.tsv", "1\tgood\n");
  const auto load = [&] { load_dataset(folder_, {.source_length = 3, .source_vocabulary = 9}); };
  EXPECT_TRUE(error_of(load).starts_with(folder_ + ": holds neither test.tsv nor dev.tsv"));
  std::filesystem::rename(at("train.tsv"), at("test.tsv"));
  EXPECT_TRUE(error_of(load).starts_with(at("train.tsv") + ": no such file"));
}

TEST_F(SentimentTest, ModelsOfAnotherKindAreRejected) {
  put_text("train.tsv", "1\tgood\n");
  EXPECT_EQ(error_of([&] { load_dataset(folder_); }), folder_ + ": holds text, the model reads images");
  const TextLimits translation{.source_length = 3, .source_vocabulary = 9, .target_length = 3, .target_vocabulary = 9};
  EXPECT_EQ(error_of([&] { load_dataset(folder_, translation); }),
            folder_ + ": holds labelled texts, the model translates");
}

TEST(MovieReviews, SplitByIdIntoFixedParts) {
  DataSplit split;
  try {
    split = load_dataset("movie-reviews", {.source_length = 40, .source_vocabulary = 6000});
  } catch (const InputError& e) {
    GTEST_SKIP() << "the movie reviews are not on this machine: " << e.what();
  }
  // 10,605 sentences less 37 rated 0 and 2 repeated ones. These numbers are the split: they may never change.
  EXPECT_EQ(split.train.samples, 8499);
  EXPECT_EQ(split.validation.samples, 1059);
  EXPECT_EQ(split.test.samples, 1008);
  EXPECT_EQ(std::ranges::count(split.test.labels, 1), 517);
  EXPECT_EQ(part_of("1"), Part::validation);
  EXPECT_EQ(part_of("2"), Part::test);
  EXPECT_EQ(part_of("3"), Part::train);
  std::int32_t largest = 0;
  for (const std::int32_t id : split.test.columns[0].ids) largest = std::max(largest, id);
  EXPECT_LT(largest, 6000);
  for (std::int64_t i = 0; i < split.test.samples; ++i) EXPECT_NE(split.test.columns[0].ids[40 * i], kPad);
}

}  // namespace
}  // namespace sluice
