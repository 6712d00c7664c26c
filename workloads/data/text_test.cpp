// Words, clean user-interface strings, the splitting hash, word vocabularies and byte pairs, by hand.
#include "workloads/data/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "workloads/data/bpe.h"

namespace sluice {
namespace {

using Words = std::vector<std::string>;

TEST(Utf8, FindsWhatIsNone) {
  EXPECT_TRUE(is_utf8("Größe ▸ 😀"));
  for (const char* wrong : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80"})
    EXPECT_FALSE(is_utf8(wrong));
  EXPECT_FALSE(is_utf8(std::string("Gr\xf6\xdf") + "e"));
  EXPECT_EQ(code_points("a\xf6z"), (std::u32string{U'a', 0xfffd, U'z'}));
}

RC_GTEST_PROP(Utf8, EncodesWhatItDecodes, ()) {
  const auto points = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::suchThat(
      rc::gen::inRange<std::uint32_t>(1, 0x110000), [](std::uint32_t c) { return c < 0xd800 || c >= 0xe000; }));
  const std::u32string text(points.begin(), points.end());
  RC_ASSERT(is_utf8(utf8(text)));
  RC_ASSERT(code_points(utf8(text)) == text);
}

TEST(Words, AreLowerCasedAndSignsStandAlone) {
  EXPECT_EQ(words_of("It's 3.5 Stars, ÄÖÜ!"), (Words{"it's", "3", ".", "5", "stars", ",", "äöü", "!"}));
  EXPECT_EQ(words_of("''quoted'' and it’s"), (Words{"'", "'", "quoted", "'", "'", "and", "it's"}));
  EXPECT_EQ(words_of("Tools ▸ Options…"), (Words{"tools", "▸", "options", "…"}));
  EXPECT_EQ(words_of("  \t\xc2\xa0 "), Words{});
  EXPECT_EQ(words_of("page {} of{}"), (Words{"page", "{}", "of", "{}"}));
  EXPECT_EQ(words_of("Zeilen\xc2\xadumbruch"), Words{"zeilenumbruch"});  // a soft hyphen
}

TEST(Words, OfALongTextAreThoseOfItsParts) {
  const std::string part = "It\u2019s {} caf\u00e9's 3.5\t\xc3 a\xe2\x82 -b\n";
  const Words of_part = words_of(part);
  std::string text;
  Words expected;
  for (int k = 0; k < 1000; ++k) {
    text += part + std::string(static_cast<std::size_t>(k % 7), ' ');
    expected.insert(expected.end(), of_part.begin(), of_part.end());
  }
  EXPECT_EQ(words_of(text), expected);
}

TEST(UiText, LosesAcceleratorsButNotIdentifiers) {
  EXPECT_EQ(clean_ui_text("~Open..."), "Open...");
  EXPECT_EQ(clean_ui_text("E_xit"), "Exit");
  EXPECT_EQ(clean_ui_text("Ö~ffnen ~und"), "Öffnen und");
  EXPECT_EQ(clean_ui_text("MY_OWN_NAME"), "MY_OWN_NAME");
  EXPECT_EQ(clean_ui_text("a ~ b"), "a ~ b");
}

TEST(UiText, HasOneTokenForEveryPlaceholder) {
  EXPECT_EQ(clean_ui_text("Page %1 of %12"), "Page {} of {}");
  EXPECT_EQ(clean_ui_text("%PRODUCTNAME %PRODUCTVERSION"), "{} {}");
  EXPECT_EQ(clean_ui_text("(%PRODUCTNAME%)"), "({})");
  EXPECT_EQ(clean_ui_text("Cannot open $(ARG1) in ${name} or $FILE$ and #col#"), "Cannot open {} in {} or {} and {}");
  EXPECT_EQ(clean_ui_text("%s: %d lines"), "{}: {} lines");
  EXPECT_EQ(clean_ui_text("100 % of $5, 50 %of it, #1"), "100 % of $5, 50 %of it, #1");
}

TEST(UiText, LosesMarkupAndNeedlessSpace) {
  EXPECT_EQ(clean_ui_text(" <b>Bold</b>\n and <a href=\"x\">this</a> "), "Bold and this");
  EXPECT_EQ(clean_ui_text("a < b and b > c"), "a < b and b > c");
  EXPECT_EQ(clean_ui_text("<unclosed"), "<unclosed");
  EXPECT_EQ(clean_ui_text("<br/>"), "");
}

TEST(StableHash, IsTheSameForEver) {
  // Computed apart: FNV-1a 64, then SplitMix64's finish.
  EXPECT_EQ(stable_hash(""), 0xf52a15e9a9b5e89bu);
  EXPECT_EQ(stable_hash("1"), 0x4687cd939adeafdfu);
  EXPECT_EQ(stable_hash("10605"), 0xe8c518c4ebc85661u);
}

TEST(StableHash, SpreadsNumbersEvenly) {
  std::vector<int> tenths(10, 0);
  for (int id = 1; id <= 10'000; ++id) ++tenths[stable_hash(std::to_string(id)) % 10];
  for (const int n : tenths) EXPECT_NEAR(n, 1000, 120);
}

TEST(WordVocabulary, KeepsTheMostFrequentWords) {
  const std::map<std::string, std::int64_t> counts{{"a", 5}, {"b", 2}, {"c", 9}, {"d", 1}, {"e", 2}};
  const WordVocabulary all(counts, 2, 100);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(all.id("c"), 4);
  EXPECT_EQ(all.id("a"), 5);
  EXPECT_EQ(all.id("b"), 6);  // before e, which is as frequent
  EXPECT_EQ(all.id("e"), 7);
  EXPECT_EQ(all.id("d"), kUnknown);
  const WordVocabulary three(counts, 2, 7);
  EXPECT_EQ(three.size(), 7u);
  EXPECT_EQ(three.id("e"), kUnknown);
}

// The paper's example (section 3.2): low 5, lower 2, newest 6, widest 3. With its end marks.
const std::map<std::string, std::int64_t> kPaper{{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};

TEST(BytePairs, LearnTheMostFrequentPairFirst) {
  // Characters: d, e, i, l, n, o, r., s, t., w (9 + 1 ids), w at a word's end, then the merges.
  const BytePairs before(kPaper, 4 + 11);
  EXPECT_EQ(before.size(), 15u);
  const BytePairs pieces(kPaper, 4 + 11 + 3);
  // es, st. and we each 9, 9 and 8 times: "e" and "s" first or "s" and "t.", whichever is older; both become "est." in
  // two steps.
  const std::set<std::string> learned{pieces.piece(15), pieces.piece(16)};
  EXPECT_TRUE(learned.contains("est"));
  EXPECT_EQ(pieces.decode(pieces.encode(Words{"newest"})), Words{"newest"});
  EXPECT_LT(pieces.encode(Words{"widest"}).size(), before.encode(Words{"widest"}).size());
}

TEST(BytePairs, SpellWhatTheyHaveNotSeen) {
  const BytePairs pieces(kPaper, 100);
  EXPECT_EQ(pieces.encode(Words{"newest"}).size(), 1u);  // merged to the end: 16 words in all
  EXPECT_GT(pieces.encode(Words{"lowest"}).size(), 1u);
  EXPECT_EQ(pieces.decode(pieces.encode(Words{"lowest", "low"})), (Words{"lowest", "low"}));
  const auto unknown = pieces.encode(Words{"xlow"});
  EXPECT_EQ(unknown.front(), kUnknown);
  EXPECT_EQ(pieces.decode(unknown), (Words{"<unk>", "low"}));
}

TEST(BytePairs, DecodeSkipsSpecialTokensAndEndsOpenWords) {
  const BytePairs pieces(kPaper, 100);
  std::vector<std::int32_t> ids{kBegin};
  for (const std::int32_t id : pieces.encode(Words{"low"})) ids.push_back(id);
  ids.push_back(kEnd);
  ids.push_back(kPad);
  EXPECT_EQ(pieces.decode(ids), Words{"low"});
  const BytePairs letters(kPaper, 15);
  const std::vector<std::int32_t> open = {letters.encode(Words{"low"})[0]};
  EXPECT_EQ(letters.decode(open), Words{"l"});
}

RC_GTEST_PROP(BytePairs, GiveTheirWordsBackWhateverTheSize, ()) {
  const auto letter = rc::gen::elementOf(std::string("abcd"));
  const auto words = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(rc::gen::container<std::string>(letter))));
  std::map<std::string, std::int64_t> counts;
  for (const std::string& word : words) ++counts[word];
  const auto extra = *rc::gen::inRange<std::int64_t>(0, 30);
  const BytePairs pieces(counts, kSpecialTokens + 8 + extra);  // four letters, twice
  RC_ASSERT(pieces.decode(pieces.encode(words)) == words);
  RC_ASSERT(static_cast<std::int64_t>(pieces.size()) <= kSpecialTokens + 8 + extra);
}

}  // namespace
}  // namespace sluice
