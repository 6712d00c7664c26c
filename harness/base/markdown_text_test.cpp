#include "harness/base/markdown_text.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(MarkdownText, ShowsTextFromOutsideAsItIs) {
  EXPECT_EQ(markdown_text("1f1b on gpt_6.2b, 10 % ~"), "1f1b on gpt_6.2b, 10 % ~");
  EXPECT_EQ(markdown_text("a|b `c` *d* _e_ ~~f~~"), R"(a\|b \`c\` \*d\* \_e\_ \~\~f\~\~)");
  EXPECT_EQ(markdown_text("[x](javascript:alert(1))"), R"(\[x\](javascript:alert(1)))");
  EXPECT_EQ(markdown_text("<script>&lt;</script>"), "&lt;script&gt;&amp;lt;&lt;/script&gt;");
  EXPECT_EQ(markdown_text("ends in \\"), "ends in \\\\");
  EXPECT_EQ(markdown_text("two\nlines\x1b[31m"), R"(two lines\\x1b\[31m)");
}

TEST(MarkdownText, BeginsNoBlock) {
  EXPECT_EQ(markdown_line("# heading"), "\\# heading");
  EXPECT_EQ(markdown_line("  - item"), "\\- item");
  EXPECT_EQ(markdown_line("12. item"), "12\\. item");
  EXPECT_EQ(markdown_line("> quote"), "&gt; quote");
  EXPECT_EQ(markdown_line("===\n---"), "\\=== ---");
  EXPECT_EQ(markdown_line("2 ranks"), "2 ranks");
}

TEST(MarkdownText, LeavesAuthorsEmphasisAndCode) {
  EXPECT_EQ(markdown_prose("with `zero=3` and *care*"), "with `zero=3` and *care*");
  EXPECT_EQ(markdown_prose("`a<b` <b> [x](y) [x]: y"), R"(`a<b` &lt;b> [x]\(y) [x]\: y)");
  EXPECT_EQ(markdown_prose("an open ` tick"), "an open \\` tick");
  EXPECT_EQ(markdown_prose("``a`b`` \\<"), "``a`b`` \\<");
}

TEST(MarkdownText, CodeHasALongerFenceThanItsText) {
  EXPECT_EQ(markdown_code("flat:4"), "`flat:4`");
  EXPECT_EQ(markdown_code("a`b``c"), "```a`b``c```");
  EXPECT_EQ(markdown_code("`a`"), "`` `a` ``");
  EXPECT_EQ(markdown_code_block("sluice run a\n"), "```\nsluice run a\n```\n");
  EXPECT_EQ(markdown_code_block("```\n# out\n"), "````\n```\n# out\n````\n");
}

}  // namespace
}  // namespace sluice
