#include "harness/base/json_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"

namespace sluice {
namespace {

const Json kDocument = Json::parse(R"({
  "name": "n", "half": 0.5, "count": 3, "yes": true, "below": -1, "huge": 1e308, "nothing": null, "nan": "NaN",
  "inner": {"key": 1}, "list": [{"a": 1}, {"a": "text"}], "numbers": [1, 2.5], "texts": ["a", "b"],
  "wide": 5000000000, "widest": 18000000000000000000})");

JsonReader reader() { return JsonReader(kDocument, "f.json"); }

TEST(JsonReaderTest, ReadsEveryTypeByName) {
  JsonReader r = reader();
  EXPECT_EQ(r.text("name"), "n");
  EXPECT_EQ(r.text("absent", "else"), "else");
  EXPECT_EQ(r.number("half", 0, 1), 0.5);
  EXPECT_EQ(r.number("count", 0, 3), 3);
  EXPECT_EQ(r.number_or("absent", 2.5, 0, 9), 2.5);
  EXPECT_EQ(r.above_zero("half", 1), 0.5);
  EXPECT_EQ(r.integer("count", 1, 9), 3);
  EXPECT_EQ(r.integer_or("absent", 9, 1, 9), 9);
  EXPECT_TRUE(r.boolean("yes"));
  EXPECT_TRUE(r.boolean("absent", true));
  EXPECT_EQ(r.object("inner").integer("key", 0, 1), 1);
  EXPECT_EQ(r.objects("list").size(), 2u);
  EXPECT_TRUE(r.objects("absent").empty());
  EXPECT_EQ(r.texts("texts"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.numbers("numbers", 0, 3), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(r.list("list").object("1").text("a"), "text");
  EXPECT_TRUE(r.is_null("nothing"));
}

TEST(JsonReaderTest, MeasuredNumbersMayHaveRunOutOfRange) {
  EXPECT_TRUE(std::isnan(reader().any_number("nan")));
  EXPECT_EQ(reader().any_number("half"), 0.5);
  EXPECT_EQ(error_of([] { reader().any_number("name"); }), "f.json: /name: must be a number, is string");
}

TEST(JsonReaderTest, MissingKeyIsNamedWithItsPointer) {
  EXPECT_EQ(error_of([] { reader().text("nam"); }), "f.json: /nam: is missing");
  EXPECT_EQ(error_of([] { reader().object("inner").number("x", 0, 1); }), "f.json: /inner/x: is missing");
  EXPECT_EQ(error_of([] { reader().list("list").object("2"); }), "f.json: /list/2: is missing");
}

TEST(JsonReaderTest, WrongTypeIsNamed) {
  EXPECT_EQ(error_of([] { reader().text("count"); }), "f.json: /count: must be a text, is number");
  EXPECT_EQ(error_of([] { reader().number("name", 0, 1); }), "f.json: /name: must be a number, is string");
  EXPECT_EQ(error_of([] { reader().integer("half", 0, 1); }), "f.json: /half: must be an integer, is number");
  EXPECT_EQ(error_of([] { reader().boolean("count", true); }), "f.json: /count: must be true or false, is number");
  EXPECT_EQ(error_of([] { reader().object("list"); }), "f.json: /list: must be an object, is array");
  EXPECT_EQ(error_of([] { reader().objects("inner"); }), "f.json: /inner: must be an array, is object");
  EXPECT_EQ(error_of([] { reader().objects("numbers"); }), "f.json: /numbers/0: must be an object, is number");
  EXPECT_EQ(error_of([] { reader().integers("numbers", 0, 9); }), "f.json: /numbers/1: must be an integer, is number");
  EXPECT_EQ(error_of([] { reader().objects("list")[1].integer("a", 0, 1); }),
            "f.json: /list/1/a: must be an integer, is string");
  EXPECT_EQ(error_of([] { JsonReader(Json(3), "f.json"); }), "f.json: /: must be an object, is number");
  EXPECT_EQ(error_of([] { JsonReader(Json::array(), "f.json"); }), "f.json: /: must be an object, is array");
}

TEST(JsonReaderTest, WhatIsOutOfItsBoundsIsRejected) {
  EXPECT_EQ(error_of([] { reader().integer("count", 4, 9); }), "f.json: /count: is 3; must be at least 4");
  EXPECT_EQ(error_of([] { reader().integer("wide", 0, kMaxCount); }),
            "f.json: /wide: 5000000000 is too large; must be at most 1000000000");
  EXPECT_EQ(reader().integer<std::int64_t>("wide", 0, kMaxBytes), 5'000'000'000);
  EXPECT_EQ(error_of([] { reader().integer<std::int64_t>("widest", 0, kMaxWhole); }),
            "f.json: /widest: 18000000000000000000 is too large; must be at most 4000000000000000000");
  EXPECT_EQ(error_of([] { reader().number("below", 0, 1); }), "f.json: /below: must not be negative");
  EXPECT_EQ(error_of([] { reader().number("half", 1, 2); }), "f.json: /half: is 0.5; must be at least 1");
  EXPECT_EQ(error_of([] { reader().number("huge", 0, kMaxNumber); }),
            "f.json: /huge: 1e+308 is too large; must be at most 1e+30");
  EXPECT_EQ(error_of([] { reader().above_zero("below", 1); }), "f.json: /below: must be greater than 0");
}

TEST(JsonReaderTest, AdviceOfTheDocumentStandsWhereAMistakeHasNone) {
  JsonReader r(kDocument, "f.json", "", "remove the line");
  EXPECT_EQ(error_of([&] { r.object("inner").text("x"); }), "f.json: /inner/x: is missing; remove the line");
  EXPECT_EQ(error_of([&] { r.fail("count", "is odd", "make it even"); }), "f.json: /count: is odd; make it even");
}

TEST(JsonReaderTest, KeysNobodyAskedForAreRejectedWithTheNearest) {
  const Json json = {{"bandwith", 1}};
  JsonReader r(json, "f.json");
  r.number_or("bandwidth", 0, 0, 1);
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
  // Of this process: tests run side by side.
  std::string path_ = testing::TempDir() + "json_reader_test." + std::to_string(::getpid()) + ".json";
};

TEST_F(ParseJsonFileTest, ReadsADocument) { EXPECT_EQ(parse_json_file(write("{\"a\": [1, 2]}"))["a"][1], 2); }

TEST_F(ParseJsonFileTest, BadSyntaxIsNamedWithLineAndColumn) {
  write("{\n  \"a\": 1,\n  \"b\" 2\n}\n");
  EXPECT_EQ(error_of([&] { parse_json_file(path_); }), path_ + ":3:7: is not JSON; look at or before this place");
  EXPECT_NE(error_of([&] { parse_json_file(write("")); }).find(":1:1: is not JSON"), std::string::npos);
}

TEST_F(ParseJsonFileTest, UnreadableFilesAreNamed) {
  EXPECT_EQ(error_of([] { parse_json_file("no/such/file.json"); }),
            "no/such/file.json: no such file; check its name and folder");
  EXPECT_EQ(error_of([] { parse_json_file("."); }), ".: is a folder; give a file");
}

TEST_F(ParseJsonFileTest, ALargeDocumentIsRejectedBeforeItIsRead) {
  write("{}");
  std::filesystem::resize_file(path_, (32 << 20) + 1);
  EXPECT_EQ(error_of([&] { parse_json_file(path_); }),
            path_ + ": is larger than such a file can be (33554432 bytes); check its name and folder");
  EXPECT_EQ(read_text_file(path_).size(), (32U << 20) + 1);
}

TEST_F(ParseJsonFileTest, WhatIsNoRegularFileIsRejectedWithoutWaitingForIt) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { parse_json_file(path_); }),
            path_ + ": is no regular file; write what it holds into a file and give that");
}

}  // namespace
}  // namespace sluice
