// Reads the description of a study: see study.h.
#include "plots/study.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <tuple>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/visible_text.h"

namespace sluice {

Conditions read_conditions(JsonReader& in, const std::string& key) {
  Conditions result;
  if (!in.has(key)) return result;
  for (const auto& [name, value] : in.object(key).json().items()) {
    if (value.is_object()) in.fail(key, "'" + name + "' must be a value or a list of values");
    for (const Json& element : value.is_array() ? value : Json::array({value})) result[name].push_back(element.text());
  }
  return result;
}

namespace {

// A number that stands alone ("1.28", "35 %", "8x", "20-fold"), not part of a name ("1F1B", "ZeRO-3").
bool is_figure(std::string word) {
  for (const char* fraction : {"\u00bc", "\u00bd", "\u00be"})  // a quarter, a half, three quarters
    if (word.find(fraction) != std::string::npos) return true;
  if (const std::size_t fold = word.find("-fold"); fold != std::string::npos) word.resize(fold);
  const auto not_digit = [](unsigned char c) { return !std::isdigit(c); };
  while (!word.empty() && not_digit(static_cast<unsigned char>(word.front())) &&
         !std::isalpha(static_cast<unsigned char>(word.front())))
    word.erase(0, 1);
  while (!word.empty() && (not_digit(static_cast<unsigned char>(word.back())))) {
    const char last = word.back();
    if (std::isalpha(static_cast<unsigned char>(last)) && last != 'x') return false;
    word.pop_back();
  }
  return !word.empty() &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) || c == '.' || c == ','; });
}

std::string prose(JsonReader& in, const std::string& key) {
  std::string text = in.text(key);
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (is_figure(word))
      in.fail(key, "holds the figure '" + word + "'", "prose explains tables; let a table show the figure");
  return text;
}

TableAxis read_axis(JsonReader in) {
  TableAxis axis{in.text("heading"), {}};
  for (JsonReader& entry : in.objects("entries")) {
    axis.entries.push_back({entry.text("title"), read_conditions(entry, "where")});
    entry.no_other_keys();
  }
  if (in.has("field"))
    for (const Json& value : in.list("values").json())
      axis.entries.push_back({value.text(), {{in.text("field"), {value.text()}}}});
  if (axis.entries.empty()) in.fail("entries", "an axis needs entries, or a field and its values");
  in.no_other_keys();
  return axis;
}

StudyTable read_table(JsonReader in) {
  StudyTable table{.name = in.text("name"), .title = in.text("title", ""), .where = read_conditions(in, "where")};
  table.best_by = study_metric(in, "best_by");
  table.also = in.text("also", "");
  if (!table.also.empty() && !is_portable_name(table.also))
    in.fail("also", "'" + table.also + "' is no file in the study's folder");
  for (JsonReader& axis : in.objects("axes")) table.axes.push_back(read_axis(axis));
  const auto is_known = [&](const std::string& heading) {
    return std::ranges::count(table.columns, heading, &TableColumn::heading) > 0;
  };
  for (JsonReader& column : in.objects("columns")) {
    TableColumn c{.heading = column.text("heading"), .where = read_conditions(column, "where")};
    if (column.has("or_where")) c.or_where = read_conditions(column, "or_where");
    c.metric = study_metric(column, "metric");
    for (const auto& [first, second, into_first, into_second] :
         {std::tuple("numerator", "denominator", &c.numerator, &c.denominator),
          std::tuple("minuend", "subtrahend", &c.minuend, &c.subtrahend)}) {
      *into_first = column.text(first, "");
      *into_second = column.text(second, "");
      for (const auto& [key, heading] : {std::pair(first, into_first), std::pair(second, into_second)})
        if (!into_first->empty() && !is_known(*heading))
          column.fail(key, "no earlier column has the heading '" + *heading + "'");
    }
    column.no_other_keys();
    table.columns.push_back(std::move(c));
  }
  if (table.axes.empty() || table.columns.empty()) in.fail("axes", "a table needs axes and columns");
  in.no_other_keys();
  return table;
}

// A picture's name, which becomes part of a file's.
std::string picture_name(JsonReader& in) {
  const std::string name = in.text("name");
  if (!is_portable_name(name))
    in.fail("name", "'" + visible(name) + "' cannot name a file", "use letters, digits, '_', '-' and '.'");
  return name;
}

ComparisonPicture read_comparison_picture(JsonReader in) {
  ComparisonPicture picture{picture_name(in), in.text("title", ""), in.choice_or("kind", RecordChart::throughput),
                            read_conditions(in, "where")};
  in.no_other_keys();
  return picture;
}

std::string heading_of(ValidationTable::By by) {
  using By = ValidationTable::By;
  if (by == By::all) return "compared";
  if (by == By::cases) return "case";
  return by == By::micro_batch ? "samples in a micro-batch" : choice_name(by);
}

std::vector<std::string> columns_of(ValidationTable::By by) {
  using By = ValidationTable::By;
  if (by == By::cases) return {"measured", "predicted", "error", "wall clock's own spread"};
  if (by == By::all) return {"values", "median", "90th percentile", "largest", "signed median"};
  return {"cases",         "time: median", "90th percentile", "largest",
          "signed median", "order kept",   "memory: median",  "memory: largest"};
}

ValidationTable read_validation_table(JsonReader in) {
  ValidationTable table{.name = in.text("name"), .title = in.text("title", "")};
  table.by = in.choice_or("by", table.by);
  in.no_other_keys();
  return table;
}

ValidationPicture read_validation_picture(JsonReader in) {
  ValidationPicture picture{picture_name(in)};
  in.no_other_keys();
  return picture;
}

// The tables, to which pictures, published findings and texts refer.
class Tables {
 public:
  void add(const StudyTable& table) {
    for (const TableColumn& column : table.columns) headings_[table.name].push_back(column.heading);
  }
  void check(JsonReader& in, const std::string& key, const std::string& table, const std::string& heading) const {
    const auto found = headings_.find(table);
    if (found == headings_.end()) in.fail("table", "no table before this has the name '" + table + "'");
    if (std::ranges::count(found->second, heading) == 0)
      in.fail(key, "the table '" + table + "' has no column '" + heading + "'", suggestion(heading, found->second));
  }

 private:
  std::map<std::string, std::vector<std::string>> headings_;
};

TablePicture read_table_picture(JsonReader in, const Tables& tables) {
  TablePicture picture{.name = picture_name(in),
                       .title = in.text("title", ""),
                       .table = in.text("table"),
                       .columns = in.texts("columns"),
                       .relative_to = in.text("relative_to", "")};
  for (const std::string& heading : picture.columns) tables.check(in, "columns", picture.table, heading);
  if (picture.columns.empty()) in.fail("columns", "a picture needs columns");
  if (!picture.relative_to.empty()) tables.check(in, "relative_to", picture.table, picture.relative_to);
  in.no_other_keys();
  return picture;
}

TableFigure table_figure(JsonReader& in, const Tables& tables) {
  TableFigure figure{.table = in.text("table"), .column = in.text("column"), .lines = read_conditions(in, "lines")};
  figure.take = in.choice_or("take", figure.take);
  if (figure.take == TableFigure::Take::above) figure.than = in.number_or("than", figure.than, -1e300, 1e300);
  tables.check(in, "column", figure.table, figure.column);
  return figure;
}

PublishedFindings read_published(JsonReader in, const Tables& tables) {
  PublishedFindings result{in.text("source"), {}};
  for (JsonReader& row : in.objects("findings")) {
    result.findings.push_back({row.text("published"), row.text("measure"), table_figure(row, tables)});
    row.no_other_keys();
  }
  in.no_other_keys();
  return result;
}

Paragraph read_paragraph(JsonReader& in, const Tables& tables) {
  Paragraph paragraph{.text = prose(in, "text"), .figures = {}};
  if (in.has("figures")) {
    JsonReader figures = in.object("figures");
    for (const auto& item : figures.json().items()) {
      const std::string name = item.first;
      if (paragraph.text.find('{' + name + '}') == std::string::npos)
        figures.fail(name, "the text does not say {" + name + "}", "say where it stands, or leave it out");
      JsonReader figure = figures.object(name);
      paragraph.figures[name] = table_figure(figure, tables);
      figure.no_other_keys();
    }
    figures.no_other_keys();
  }
  for (std::size_t at = 0; (at = paragraph.text.find('{', at)) != std::string::npos; ++at) {
    const std::string name = paragraph.text.substr(at + 1, paragraph.text.find('}', at) - at - 1);
    if (!paragraph.figures.contains(name))
      in.fail("text", "no figure has the name '" + visible(name) + "'", "give it in figures");
  }
  return paragraph;
}

void read_section(Study& study, JsonReader in, Tables& tables) {
  if (in.has("text")) {
    study.sections.emplace_back(read_paragraph(in, tables));
  } else if (in.has("table")) {
    const StudyTable table = read_table(in.object("table"));
    tables.add(table);
    study.sections.emplace_back(table);
  } else if (in.has("validation")) {
    const ValidationTable table = read_validation_table(in.object("validation"));
    tables.add(description_of(table));
    study.sections.emplace_back(table);
  } else if (in.has("validation_chart")) {
    study.sections.emplace_back(read_validation_picture(in.object("validation_chart")));
  } else if (in.has("chart")) {
    study.sections.emplace_back(read_comparison_picture(in.object("chart")));
  } else if (in.has("table_chart")) {
    study.sections.emplace_back(read_table_picture(in.object("table_chart"), tables));
  } else if (in.has("published")) {
    study.sections.emplace_back(read_published(in.object("published"), tables));
  } else if (in.boolean("failed_runs", false)) {
    study.sections.emplace_back(FailedRuns{});
  } else if (in.boolean("stable_rates", false)) {
    study.sections.emplace_back(StableRateTables{});
  } else {
    in.fail("",
            "a section is one of text, table, validation, chart, table_chart, validation_chart, published, "
            "failed_runs, stable_rates");
  }
  in.no_other_keys();
}

}  // namespace

StudyTable description_of(const ValidationTable& table) {
  StudyTable description{.name = table.name, .title = table.title};
  description.axes.push_back({heading_of(table.by), {}});
  for (const std::string& heading : columns_of(table.by)) description.columns.push_back({.heading = heading});
  return description;
}

const Field* study_metric(JsonReader& in, const std::string& key) {
  const std::string name = in.text(key, "throughput");
  const Field* found = find_field(name);
  if (found && found->unit != Unit::text) return found;
  std::vector<std::string> names;
  for (const Field& field : record_fields())
    if (field.unit != Unit::text) names.push_back(field.name);
  in.fail(key, "unknown " + key + " '" + name + "'", suggestion(name, names));
}

Study read_study(const std::filesystem::path& file) {
  if (!is_portable_name(file.stem().string()))
    throw InputError(visible(file.string()), "its name is also its page's",
                     "use letters, digits, '_', '-' and '.' in it");
  const Json document = parse_json_file(file.string());
  JsonReader in(document, file.string());
  Study study{.name = file.stem().string(), .title = in.text("title"), .question = prose(in, "question")};
  study.records = file.parent_path() / in.text("records");
  if (in.has("targets")) study.targets = file.parent_path() / in.text("targets");
  study.commands = in.texts("commands");
  Tables tables;
  for (JsonReader& section : in.objects("sections")) read_section(study, section, tables);
  if (in.has("answer"))
    for (JsonReader& line : in.objects("answer")) {
      study.answer.push_back(read_paragraph(line, tables));
      line.no_other_keys();
    }
  in.no_other_keys();
  return study;
}

}  // namespace sluice
