// Text from outside: what it looks like in a terminal and in a spreadsheet.
#include "harness/base/visible_text.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(VisibleText, KeepsWhatIsTextInAnyScript) {
  for (const std::string text : {"", "gpipe", "1f1b, 4 ranks", "Größe 1 µs", "日本語", "🙂"})
    EXPECT_EQ(visible(text), text);
}

TEST(VisibleText, ShowsControlCharactersInsteadOfSendingThem) {
  EXPECT_EQ(visible("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(visible("a\rb\tc\nd"), "a\\x0db\\x09c\\nd");
  EXPECT_EQ(visible(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(visible("\x7f"), "\\x7f");
  EXPECT_EQ(visible("\xc2\x9b"
                    "31m"),
            "\\x9b31m");  // the one-character form of ESC [
}

TEST(VisibleText, ShowsMarksThatReverseALine) {
  EXPECT_EQ(visible("abc\xe2\x80\xae"
                    "fed"),
            "abc\\u202efed");
  EXPECT_EQ(visible("\xe2\x81\xa6x\xe2\x81\xa9"), "\\u2066x\\u2069");
}

TEST(VisibleText, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(visible("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(visible("\xc0\x80"), "\\xc0\\x80");           // a zero in two bytes
  EXPECT_EQ(visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(visible("\xe2\x82"), "\\xe2\\x82");  // cut off
}

TEST(VisibleJson, EscapesWhatATerminalObeysAndNothingElse) {
  EXPECT_EQ(visible_json("{\"a\":\"\xc2\x9b\x7f\xe2\x80\xae\"}"), "{\"a\":\"\\u009b\\u007f\\u202e\"}");
  EXPECT_EQ(visible_json("{\"gr\xc3\xb6\xc3\x9f"
                         "er\": 1}\n"),
            "{\"gr\xc3\xb6\xc3\x9f"
            "er\": 1}\n");
}

TEST(PortableName, IsOneThatNamesAFileAndStandsInALink) {
  for (const char* name : {"gpipe", "gpt_6.2b", "a-b", "1F1B"}) EXPECT_TRUE(is_portable_name(name)) << name;
  for (const char* name : {"", ".", "..", ".x", "-x", "a/b", "a b", "a)", "<b>", "\xc3\xb6", "a\nb"})
    EXPECT_FALSE(is_portable_name(name)) << name;
  EXPECT_FALSE(is_portable_name(std::string(101, 'x')));
}

TEST(CsvCell, QuotesSeparatorsAndQuotes) {
  EXPECT_EQ(csv_cell("gpipe"), "gpipe");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"so\""), "\"say \"\"so\"\"\"");
}

TEST(CsvCell, IsNeverAFormula) {
  EXPECT_EQ(csv_cell("=1+1"), "'=1+1");
  EXPECT_EQ(csv_cell("+cmd"), "'+cmd");
  EXPECT_EQ(csv_cell("-2+3"), "'-2+3");
  EXPECT_EQ(csv_cell("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_cell("\t=1"), "'\\x09=1");
  EXPECT_EQ(csv_cell("=HYPERLINK(\"a\",\"b\")"), "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\"");
}

TEST(CsvCell, LeavesNumbersNumbers) {
  for (const char* text : {"-1", "-0.5", "1e-9", "-inf", "nan"}) EXPECT_EQ(csv_cell(text), text);
}

}  // namespace
}  // namespace sluice
