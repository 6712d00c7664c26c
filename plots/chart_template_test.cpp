#include "plots/chart_template.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "plots/page_files.h"

namespace sluice {
namespace {

// Texts as JSON, with ' for ".
Json json(std::string text) {
  for (char& c : text)
    if (c == '\'') c = '"';
  return Json::parse(text);
}

Json filled(const std::string& chart, const std::string& values) { return filled_template(json(chart), json(values)); }

TEST(ChartTemplate, ANameIsReplacedByItsValueOfAnyType) {
  EXPECT_EQ(filled("{'a': '$n', 'b': ['$t', 1, null, 'plain'], '$schema': 's'}", "{'n': [1, {'x': 2}], 't': 'text'}"),
            json("{'a': [1, {'x': 2}], 'b': ['text', 1, null, 'plain'], '$schema': 's'}"));
}

TEST(ChartTemplate, AValueStandsAsItIsWhateverItHolds) {
  EXPECT_EQ(filled("{'a': '$n'}", "{'n': {'$if': 'no', 'b': '$other'}}"), json("{'a': {'$if': 'no', 'b': '$other'}}"));
}

TEST(ChartTemplate, AnOptionalNameOfNullIsLeftOutWithItsKey) {
  EXPECT_EQ(filled("{'a': '$n?', 'b': '$n', 'c': ['$n?', '$m?']}", "{'n': null, 'm': 0}"),
            json("{'b': null, 'c': [0]}"));
}

TEST(ChartTemplate, AConditionLeavesOutWhatIsNullOrFalse) {
  const std::string chart = "{'a': {'$if': 'n', 'x': 1}, 'l': [{'$if': 'n', 'y': 2}, {'$if': '!n', 'z': 3}]}";
  for (const char* no : {"null", "false"})
    EXPECT_EQ(filled(chart, std::string("{'n': ") + no + "}"), json("{'l': [{'z': 3}]}"));
  for (const char* yes : {"true", "0", "[]", "''"})
    EXPECT_EQ(filled(chart, std::string("{'n': ") + yes + "}"), json("{'a': {'x': 1}, 'l': [{'y': 2}]}"));
}

TEST(ChartTemplate, DefinitionsAreFilledWhereTheyAreUsedAndExtendedByMembers) {
  EXPECT_EQ(filled("{'$define': {'axis': {'field': 'a', 'title': '$t', '$comment': 'c'}},"
                   " 'x': '$axis', 'y': {'$use': 'axis', 'field': 'b', 'stack': null},"
                   " 'l': [{'$each': [{'t': 'inner'}], 'z': '$axis'}]}",
                   "{'t': 'outer'}"),
            json("{'x': {'field': 'a', 'title': 'outer'}, 'y': {'field': 'b', 'title': 'outer', 'stack': null},"
                 " 'l': [{'z': {'field': 'a', 'title': 'inner'}}]}"));
}

TEST(ChartTemplate, AnElementIsRepeatedForEachValueAndAListForEachInOrder) {
  EXPECT_EQ(filled("[0, {'$each': 'rows', 'v': '$v'}, 9]", "{'rows': [{'v': 1}, {'v': 2}]}"),
            json("[0, {'v': 1}, {'v': 2}, 9]"));
  EXPECT_EQ(filled("[{'$each': [{'c': 'a'}, {'c': 'b'}], '$list': ['$c', {'$each': 'k', 'i': '$i', 'c': '$c'}]}]",
                   "{'k': [{'i': 1}, {'i': 2}]}"),
            json("['a', {'i': 1, 'c': 'a'}, {'i': 2, 'c': 'a'}, 'b', {'i': 1, 'c': 'b'}, {'i': 2, 'c': 'b'}]"));
  EXPECT_EQ(filled("[{'$each': 'rows', 'v': '$v'}]", "{'rows': []}"), Json::array());
}

TEST(ChartTemplate, ANameWithoutAValueIsADefect) {
  EXPECT_THROW(filled("{'a': '$missing'}", "{}"), std::logic_error);
  EXPECT_THROW(filled("{'$if': 'missing'}", "{}"), std::logic_error);
  EXPECT_THROW(filled_chart("no_such_chart", Json::object()), std::logic_error);
}

TEST(PageFiles, AreFilledByName) {
  const std::string page = filled_page("boundaries.html", {{"charts", "<b>{{rates}}</b>"}, {"rates", "rate"}});
  EXPECT_TRUE(page.starts_with("<h2 id=\"boundaries\">")) << page;
  EXPECT_TRUE(page.ends_with("<b>{{rates}}</b>rate")) << page;  // a value is not read again
  EXPECT_THROW(filled_page("boundaries.html", {{"charts", ""}}), std::logic_error);
  EXPECT_THROW(page_file("boundaries"), std::logic_error);
  EXPECT_EQ(script_json(json("{'a': '</script>'}")), "{\"a\":\"\\u003c/script>\"}");
}

}  // namespace
}  // namespace sluice
