#include "harness/base/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

std::string rejection(const std::string& text) {
  return error_of([&] { Json::parse(text, "f.json"); });
}

TEST(Json, BracesWithPairsOfATextAndAValueAreAnObjectAndOthersAnArray) {
  const Json json = {{"b", 1}, {"a", {1, 2.5, "x", true, nullptr}}, {"c", {{"d", {}}}}};
  EXPECT_EQ(json.dump(), R"({"a":[1,2.5,"x",true,null],"b":1,"c":{"d":null}})");
  EXPECT_EQ(Json::array({"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json(std::vector<std::string>{"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json::object().dump(), "{}");
  EXPECT_EQ(Json().dump(), "null");
}

TEST(Json, IsWrittenWithSortedKeysAndAsFewDigitsAsReadBackToTheSame) {
  const std::string text = R"({"a":[0.1,1e-07,1.0,-3,18000000000000000000,1.7976931348623157e+308],"b":"ü\n"})";
  EXPECT_EQ(Json::parse(text).dump(), text);
  EXPECT_EQ(Json({{"a", {1}}}).dump(2), "{\n  \"a\": [\n    1\n  ]\n}");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json("\xff").dump(), "\"\xef\xbf\xbd\"");  // a byte that is no UTF-8
}

TEST(Json, NumbersAreEqualByTheirValue) {
  EXPECT_EQ(Json(1), Json(1u));
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_NE(Json(-1), Json(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_NE(Json(1), Json("1"));
  EXPECT_EQ(Json::parse("[1, -1, 2.0]"), Json::array({1, -1, 2}));
}

TEST(Json, AValueIsGivenOnlyAsWhatItIs) {
  const Json json = Json::parse(R"({"n": 300, "x": 1.5, "t": "a", "l": [1, 2]})");
  EXPECT_EQ(json["n"].get<int>(), 300);
  EXPECT_EQ(json["n"].get<double>(), 300);
  EXPECT_EQ(json["l"].get<std::vector<int>>(), (std::vector<int>{1, 2}));
  EXPECT_THROW(json["n"].get<std::int8_t>(), JsonError);
  EXPECT_THROW(json["x"].get<int>(), JsonError);
  EXPECT_THROW(json["t"].get<double>(), JsonError);
  EXPECT_THROW(json["missing"], JsonError);
  EXPECT_THROW(json["l"][2], JsonError);
  EXPECT_EQ(json.value("missing", 7), 7);
  EXPECT_EQ(json.find("missing"), nullptr);
}

TEST(Json, AssigningAPartOfItselfKeepsThePart) {
  Json json = {{"inner", {{"a", 1}}}};
  json = std::move(json["inner"]);
  EXPECT_EQ(json, Json({{"a", 1}}));
}

TEST(Json, BadSyntaxIsNamedWithItsPlace) {
  EXPECT_EQ(rejection("{\"a\": 1,}"), "f.json:1:9: is not JSON; look at or before this place");
  EXPECT_EQ(rejection("{\"a\": 1}\n{}"), "f.json:2:1: is not JSON; look at or before this place");
  EXPECT_EQ(rejection("[NaN]"), "f.json:1:2: is not JSON; look at or before this place");
  EXPECT_EQ(Json::parse_if_json("[1"), std::nullopt);
  // A member of the outermost object alone is left out; what stands in it has to be JSON all the same.
  EXPECT_EQ(Json::parse_if_json(R"({"a": {"b": [1, {"a": 2}]}, "c": {"a": 3}})", "a"),
            Json::parse(R"({"a": [], "c": {"a": 3}})"));
  EXPECT_EQ(Json::parse_if_json(R"({"a": 1, "b": [2]})", "a"), Json::parse(R"({"a": [], "b": [2]})"));
  EXPECT_EQ(Json::parse_if_json(R"({"a": {"b": }})", "a"), std::nullopt);
  EXPECT_EQ(Json::parse_if_json(R"({"a": 1, "a": 2})", "a"), std::nullopt);
}

TEST(Json, AKeyTwiceInOneObjectIsRejectedWithItsPointer) {
  EXPECT_EQ(rejection(R"({"a": [0, {"b": {"c": 1, "d": 2, "c": 3}}]})"),
            "f.json: /a/1/b/c: stands twice in one object");
  EXPECT_EQ(rejection(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]})"), "no error");
}

TEST(Json, ElementsOfALargeArrayAreGivenOneByOne) {
  std::vector<Json> given;
  const auto keep = [&](std::size_t index, const Json& element) {
    EXPECT_EQ(index, given.size());
    given.push_back(element);
  };
  // Of a key that is twice in an element the last value counts.
  const Json rest =
      Json::parse_elements(R"({"a":[1,2],"e":[{"x":1,"y":[1],"x":2},3,[4]],"b":{"e":[5]}})", "t", "e", keep);
  EXPECT_EQ(given, (std::vector<Json>{Json{{"x", 2}, {"y", {1}}}, 3, Json::array({4})}));
  EXPECT_EQ(rest, (Json{{"a", {1, 2}}, {"b", {{"e", Json::array({5})}}}, {"e", Json::array()}}));
  given.clear();
  Json::parse_elements("[1,2]", "t", "e", keep);
  EXPECT_EQ(given, (std::vector<Json>{1, 2}));
  given.clear();
  EXPECT_EQ(error_of([&] { Json::parse_elements(R"({"e":[1,{"a":)" + std::string(300, '['), "t", "e", keep); }),
            "t: is nested deeper than 256 levels");
  EXPECT_EQ(error_of([&] { Json::parse_elements(R"({"a":1,"a":2})", "t", "e", keep); }),
            "t: /a: stands twice in one object");
}

TEST(Json, NumbersOutOfADoublesRangeAreRejected) {
  EXPECT_EQ(rejection("{\"a\": 1e999}"), "f.json:1:11: is a number out of range; look at or before this place");
  EXPECT_EQ(rejection("[1e308, 1e-999, 123456789012345678901234567890]"), "no error");
}

TEST(Json, BytesThatAreNotUtf8AreRejected) {
  EXPECT_EQ(rejection("[\"a\xc3(\"]"), "f.json:1:5: is not UTF-8; look at or before this place");
}

TEST(Json, DeepNestingIsRejectedHoweverDeepItIs) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_EQ(rejection(nested(Json::kMaxNesting)), "no error");
  EXPECT_EQ(rejection(nested(Json::kMaxNesting + 1)), "f.json: is nested deeper than 256 levels");
  EXPECT_EQ(rejection(nested(1'000'000)), "f.json: is nested deeper than 256 levels");
}

}  // namespace
}  // namespace sluice
