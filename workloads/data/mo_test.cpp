// The reader of gettext catalogues, on files made by hand.
#include "workloads/data/mo.h"

#include "harness/base/expect_error.h"
#include "workloads/data/test_files.h"

namespace sluice {
namespace {

using namespace std::string_literals;

class CatalogueTest : public DataFiles {
 protected:
  std::string error_with(const FileBytes& bytes) const {
    const std::string path = put("a.mo", bytes);
    const std::string message = error_of([&] { read_catalogue(path); });
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return message.substr(std::min(message.size(), path.size() + 2));
  }
};

TEST_F(CatalogueTest, ReadsBothByteOrders) {
  for (const bool big_endian : {false, true}) {
    const std::string path = put("a.mo", mo_bytes({{"", "Content-Type: text/plain; charset=UTF-8\n"},
                                                   {"STR_OPEN\4~Open", "Ö~ffnen"},
                                                   {"Close", "Schließen"}},
                                                  big_endian));
    const auto entries = read_catalogue(path);
    ASSERT_EQ(entries.size(), 2u);  // the header is none
    EXPECT_EQ(entries[0].context, "STR_OPEN");
    EXPECT_EQ(entries[0].original, "~Open");
    EXPECT_EQ(entries[0].translations, std::vector<std::string>{"Ö~ffnen"});
    EXPECT_EQ(entries[1].context, "");
    EXPECT_EQ(entries[1].original, "Close");
  }
}

TEST_F(CatalogueTest, SplitsPluralForms) {
  const auto entries = read_catalogue(put("a.mo", mo_bytes({{"c\4%1 page\0%1 pages"s, "%1 Seite\0%1 Seiten"s}})));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].original, "%1 page");
  EXPECT_EQ(entries[0].original_plural, "%1 pages");
  EXPECT_EQ(entries[0].translations, (std::vector<std::string>{"%1 Seite", "%1 Seiten"}));
}

TEST_F(CatalogueTest, AnEmptyCatalogueHasNoEntries) { EXPECT_TRUE(read_catalogue(put("a.mo", mo_bytes({}))).empty()); }

TEST_F(CatalogueTest, MalformedFilesAreNamed) {
  const FileBytes good = mo_bytes({{"Close", "Schließen"}});
  EXPECT_TRUE(error_with({1, 2, 3}).starts_with("is cut off inside its header"));
  FileBytes bytes = good;
  bytes[0] ^= 1;
  EXPECT_TRUE(error_with(bytes).starts_with("is not a gettext catalogue"));
  bytes = good;
  bytes[6] = 2;  // major revision
  EXPECT_TRUE(error_with(bytes).starts_with("has format revision 2"));
  bytes = good;
  bytes[8] = 200;  // more entries than there is file
  EXPECT_NE(error_with(bytes).find("a.mo"), 0u);
  bytes = good;
  bytes[12] = 250;  // the table of originals behind the end
  EXPECT_TRUE(error_with(bytes).starts_with("is cut off inside its tables"));
  bytes = good;
  bytes.pop_back();
  EXPECT_TRUE(error_with(bytes).starts_with("string 0 lies outside of the file"));
  bytes = good;
  bytes[28] = 3;  // "Clo", and no zero after it
  EXPECT_TRUE(error_with(bytes).starts_with("string 0 does not end in a zero byte"));
  bytes = good;
  for (std::size_t k = 32; k < 36; ++k) bytes[k] = 0xff;  // an offset near 2^32 does not wrap round
  EXPECT_TRUE(error_with(bytes).starts_with("string 0 lies outside of the file"));
}

TEST_F(CatalogueTest, EveryTruncationIsAnErrorAndNotACrash) {
  const FileBytes good = mo_bytes({{"a\4Close", "Schließen"}, {"Open\0Opens"s, "Öffnen\0Öffnet"s}});
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(error_with({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)}), "") << n;
}

TEST_F(CatalogueTest, MissingFile) {
  EXPECT_TRUE(error_of([&] { read_catalogue(at("no.mo")); }).starts_with(at("no.mo") + ": no such"));
}

}  // namespace
}  // namespace sluice
