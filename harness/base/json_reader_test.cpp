#include "harness/base/json_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

const nlohmann::json kDocument = nlohmann::json::parse(R"({
  "name": "n", "half": 0.5, "count": 3, "yes": true,
  "inner": {"key": 1}, "list": [{"a": 1}, {"a": "text"}], "numbers": [1]})");

JsonReader reader() { return JsonReader(kDocument, "f.json"); }

TEST(JsonReaderTest, ReadsEveryTypeByName) {
  JsonReader r = reader();
  EXPECT_EQ(r.text("name"), "n");
  EXPECT_EQ(r.text("absent", "else"), "else");
  EXPECT_EQ(r.number("half"), 0.5);
  EXPECT_EQ(r.number("count"), 3);
  EXPECT_EQ(r.number("absent", 2.5), 2.5);
  EXPECT_EQ(r.integer("count", 1), 3);
  EXPECT_EQ(r.integer("absent", 9, 1), 9);
  EXPECT_TRUE(r.boolean("yes", false));
  EXPECT_TRUE(r.boolean("absent", true));
  EXPECT_EQ(r.object("inner").integer("key", 0), 1);
  EXPECT_EQ(r.objects("list").size(), 2u);
  EXPECT_TRUE(r.objects("absent").empty());
}

TEST(JsonReaderTest, MissingKeyIsNamedWithItsPointer) {
  EXPECT_EQ(error_of([] { reader().text("nam"); }), "f.json: /nam: is missing");
  EXPECT_EQ(error_of([] { reader().object("inner").number("x"); }), "f.json: /inner/x: is missing");
}

TEST(JsonReaderTest, WrongTypeIsNamed) {
  EXPECT_EQ(error_of([] { reader().text("count"); }), "f.json: /count: must be a text, is number");
  EXPECT_EQ(error_of([] { reader().number("name"); }), "f.json: /name: must be a number, is string");
  EXPECT_EQ(error_of([] { reader().integer("half", 0); }), "f.json: /half: must be an integer, is number");
  EXPECT_EQ(error_of([] { reader().boolean("count", true); }), "f.json: /count: must be true or false, is number");
  EXPECT_EQ(error_of([] { reader().object("list"); }), "f.json: /list: must be an object, is array");
  EXPECT_EQ(error_of([] { reader().objects("inner"); }), "f.json: /inner: must be an array, is object");
  EXPECT_EQ(error_of([] { reader().objects("numbers"); }), "f.json: /numbers/0: must be an object, is number");
  EXPECT_EQ(error_of([] { reader().objects("list")[1].integer("a", 0); }),
            "f.json: /list/1/a: must be an integer, is string");
  EXPECT_EQ(error_of([] { JsonReader(nlohmann::json(3), "f.json"); }), "f.json: /: must be an object, is number");
}

TEST(JsonReaderTest, OutOfRangeIntegerIsRefused) {
  EXPECT_EQ(error_of([] { reader().integer("count", 4); }), "f.json: /count: is 3; must be at least 4");
  const nlohmann::json large = {{"n", 18'000'000'000'000'000'000u}};
  EXPECT_EQ(error_of([&] { JsonReader(large, "f.json").integer("n", 0); }), "f.json: /n: is too large");
}

TEST(JsonReaderTest, KeysNobodyAskedForAreRefusedWithTheNearest) {
  const nlohmann::json json = {{"bandwith", 1}};
  JsonReader r(json, "f.json");
  r.number("bandwidth", 0);
  EXPECT_EQ(error_of([&] { r.no_other_keys(); }),
            "f.json: /bandwith: unknown key 'bandwith'; did you mean 'bandwidth'?");
}

class ParseJsonFileTest : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = testing::TempDir() + "json_reader_test.json";
};

TEST_F(ParseJsonFileTest, ReadsADocument) { EXPECT_EQ(parse_json_file(write("{\"a\": [1, 2]}"))["a"][1], 2); }

TEST_F(ParseJsonFileTest, BadSyntaxIsNamedWithLineAndColumn) {
  write("{\n  \"a\": 1,\n  \"b\" 2\n}\n");
  EXPECT_EQ(error_of([&] { parse_json_file(path_); }), path_ + ":3:7: is not JSON; look at or before this place");
  EXPECT_NE(error_of([&] { parse_json_file(write("")); }).find(":1:1: is not JSON"), std::string::npos);
}

TEST_F(ParseJsonFileTest, UnreadableFilesAreNamed) {
  EXPECT_EQ(error_of([] { parse_json_file("no/such/file.json"); }),
            "no/such/file.json: cannot be read; check the name and its permissions");
  EXPECT_EQ(error_of([] { parse_json_file("."); }), ".: is a folder; give a file");
}

}  // namespace
}  // namespace sluice
