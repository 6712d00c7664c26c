// Translation pairs: formats by hand, and LibreOffice's German catalogues where they have been fetched.
#include "workloads/data/translation.h"

#include <algorithm>
#include <set>

#include "harness/base/expect_error.h"
#include "workloads/data/locate.h"
#include "workloads/data/test_files.h"
#include "workloads/data/text.h"

namespace sluice {
namespace {

using namespace std::string_literals;
using Pairs = std::vector<std::pair<std::string, std::string>>;

class TranslationTest : public DataFiles {
 protected:
  static Pairs as_pairs(const std::vector<TextPair>& texts) {
    Pairs pairs;
    for (const TextPair& text : texts) pairs.emplace_back(text.source, text.target);
    return pairs;
  }
  static constexpr TextLimits kLimits{
      .source_length = 8, .source_vocabulary = 60, .target_length = 9, .target_vocabulary = 60};
};

TEST_F(TranslationTest, CatalogueEntriesAreCleanedAndPluralsCountTwice) {
  const std::string path = put("a.mo", mo_bytes({{"", "header"},
                                                 {"A\4~Open %1", "%1 ö~ffnen"},
                                                 {"B\4<br/>", "<br/>"},
                                                 {"C\4page\0pages"s, "Seite\0Seiten\0Seiten"s}}));
  EXPECT_EQ(as_pairs(read_catalogue_pairs(path)),
            (Pairs{{"Open {}", "{} öffnen"}, {"page", "Seite"}, {"pages", "Seiten"}}));
}

TEST_F(TranslationTest, NoSourceOfOnePartIsInAnother) {
  put("sd.mo", mo_bytes({{"a\4Open", "Öffnen"}, {"b\4Open", "Offen"}, {"Slide", "Folie"}}));
  put("chart.mo", mo_bytes({{"Axis", "Achse"}, {"open", "auf"}}));
  put("sw.mo", mo_bytes({{"~Slide", "Dia"}, {"AXIS", "Achse"}, {"Page", "Seite"}}));
  put("sc.mo", mo_bytes({{"Page", "Blatt"}, {"Cell", "Zelle"}}));
  const TextPairs parts = split_catalogues(folder_);
  EXPECT_EQ(as_pairs(parts.test), (Pairs{{"Open", "Öffnen"}, {"Slide", "Folie"}}));
  EXPECT_EQ(as_pairs(parts.validation), (Pairs{{"Axis", "Achse"}}));
  EXPECT_EQ(as_pairs(parts.train), (Pairs{{"Page", "Blatt"}, {"Cell", "Zelle"}}));  // by file name
}

TEST_F(TranslationTest, InputsBeginAndTargetsEndTheSentence) {
  put_text("train.en", "a b\nb a\n");
  put_text("train.de", "b a\na b\n");
  put_text("test.en", "a\na b a b a b a b\n");
  put_text("test.de", "b b\nb a b a b a b a\n");
  const DataSplit split = load_dataset(folder_, kLimits);
  const std::int32_t a = 4, b = 5;
  EXPECT_EQ(split.train.samples, 2);
  EXPECT_EQ(split.train.columns[0].ids,
            (std::vector<std::int32_t>{a, b, kEnd, 0, 0, 0, 0, 0, b, a, kEnd, 0, 0, 0, 0, 0}));
  EXPECT_EQ(split.test.samples, 1) << "eight words and </s> do not fit into eight positions";
  EXPECT_EQ(split.test.columns[1].ids, (std::vector<std::int32_t>{kBegin, b, b, 0, 0, 0, 0, 0, 0}));
  const std::int32_t no = kNoTarget;
  EXPECT_EQ(split.test.targets.ids, (std::vector<std::int32_t>{b, b, kEnd, no, no, no, no, no, no}));
  EXPECT_EQ(split.references, (std::vector<std::vector<std::string>>{{"b", "b"}}));
  EXPECT_EQ(split.words(std::vector<std::int32_t>{b, a, kEnd}), (std::vector<std::string>{"b", "a"}));
}

TEST_F(TranslationTest, ParallelFilesMustMatch) {
  put_text("train.en", "a\nb\n");
  put_text("train.de", "a\n");
  put_text("test.en", "a\n");
  put_text("test.de", "a\n");
  const auto load = [&] { load_dataset(folder_, kLimits); };
  EXPECT_TRUE(error_of(load).starts_with(at("train.en") + ": has 2 lines, " + at("train.de") + " has 1"));
  std::filesystem::remove(at("train.de"));
  EXPECT_TRUE(error_of(load).starts_with(folder_ + ": has 1 files named train.*"));
  put_text("train.de", "a\nb\n");
  std::filesystem::remove(at("test.de"));
  EXPECT_TRUE(error_of(load).starts_with(at("test.de") + ": no such file"));
}

TEST_F(TranslationTest, ATextThatNobodyMarkedAsTheSourceIsRejected) {
  put_text("train.fr", "a\n");
  put_text("train.de", "a\n");
  EXPECT_NE(error_of([&] { load_dataset(folder_, kLimits); }).find("train.en and train.de"), std::string::npos);
}

TEST_F(TranslationTest, PartsThatAreMissingAreNamed) {
  put("sw.mo", mo_bytes({{"Page", "Seite"}}));
  EXPECT_TRUE(error_of([&] { load_dataset(folder_, kLimits); }).starts_with(folder_ + ": has no sd.mo"));
  std::filesystem::rename(at("sw.mo"), at("sd.mo"));
  EXPECT_TRUE(
      error_of([&] { load_dataset(folder_, kLimits); }).starts_with(folder_ + ": has no catalogues to train on"));
}

TEST(LibreOfficeGerman, HasDisjointPartsAndFitsItsLimits) {
  const TextLimits limits{
      .source_length = 16, .source_vocabulary = 2000, .target_length = 16, .target_vocabulary = 2000};
  DataSplit split;
  try {
    split = load_dataset("libreoffice-de", limits);
  } catch (const InputError& e) {
    GTEST_SKIP() << "the German catalogues are not on this machine: " << e.what();
  }
  // Debian may update the catalogues, so no exact numbers.
  EXPECT_GT(split.train.samples, 9000);
  EXPECT_GT(split.test.samples, 700);
  EXPECT_GT(split.validation.samples, 700);
  const auto rows = [](const Dataset& data) {
    std::set<std::vector<std::int32_t>> result;
    const TokenColumn& column = data.columns[0];
    for (std::int64_t i = 0; i < data.samples; ++i) {
      const auto first = column.ids.begin() + i * column.length;
      result.insert({first, first + column.length});
    }
    return result;
  };
  const auto train = rows(split.train), test = rows(split.test);
  EXPECT_GT(train.size(), 9000u);
  for (const auto& row : test) EXPECT_FALSE(train.contains(row));
  for (const auto& row : rows(split.validation)) EXPECT_FALSE(train.contains(row) || test.contains(row));
  for (const Dataset* part : {&split.train, &split.validation, &split.test}) {
    std::int64_t unknown = 0;
    for (std::size_t i = 0; i < part->targets.ids.size(); ++i) {
      const std::int32_t target = part->targets.ids[i], input = part->columns[1].ids[i];
      EXPECT_LT(target, 2000);
      EXPECT_EQ(target == kNoTarget, input == kPad) << i;
      unknown += target == kUnknown;
    }
    EXPECT_LT(unknown, part->samples / 100);  // characters that training does not have
  }
  ASSERT_EQ(static_cast<std::int64_t>(split.references.size()), split.test.samples);
  // Ids give the reference back, but where a character is unknown.
  int same = 0;
  for (std::int64_t i = 0; i < split.test.samples; ++i) {
    const auto first = split.test.targets.ids.begin() + i * 16;
    const auto end = std::find(first, first + 16, kEnd);
    ASSERT_NE(end, first + 16);
    same += split.words(std::vector<std::int32_t>(first, end)) == split.references[i];
  }
  EXPECT_GT(same, split.test.samples * 99 / 100);
}

}  // namespace
}  // namespace sluice
