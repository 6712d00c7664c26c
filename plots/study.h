// A study: a question, the reference records that answer it, and how a page of results/findings shows them. It is
// described by results/reference/NAME.json, whose form results/README.md gives; every number of the page is taken from
// the records when the page is made. Published numbers are data of the description, with their source.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "harness/base/choice.h"
#include "results/fields.h"

namespace sluice {

class JsonReader;

// Fields of a record by their names in its line ("ranks", "options.partition"), each with the values, as text, of which
// it has one. "null" (null in the file): the record lacks the field. In addition "rate": "tuned" where the learning
// rate of a run was tuned, "given" where not.
using Conditions = std::map<std::string, std::vector<std::string>>;
// The object of that key, each member a value or a list of values; empty where it is missing. Throws InputError.
Conditions read_conditions(JsonReader& in, const std::string& key);

struct NamedConditions {
  std::string title;
  Conditions where;
};

// One leading column of a table. A table has a line for every combination of its axes' entries.
struct TableAxis {
  std::string heading;
  std::vector<NamedConditions> entries;
};

// A cell shows `metric` of the best run (StudyTable::best_by) among those that match the table's, the line's and the
// column's conditions, of which the column's replace equal names of the others. Or, where `numerator` is given, what
// the columns of these headings give divided by one another. Or, where `minuend` is given, the mean by which runs of
// one column are above those of the other over the same seeds, with its interval (PairedDifference), and "*" where it
// differs from 0 by Holm's correction for all such cells of the table.
struct TableColumn {
  std::string heading;
  Conditions where;
  std::optional<Conditions> or_where = {};  // runs that match these instead of `where` are among them, too
  const Field* metric = find_field("throughput");
  std::string numerator, denominator;
  std::string minuend, subtrahend;
};

struct StudyTable {
  std::string name;  // by which charts and published findings refer to it
  std::string title;
  Conditions where;
  const Field* best_by = find_field("throughput");
  std::vector<TableAxis> axes;
  std::vector<TableColumn> columns;
  std::string also;  // a file of another study's records, in the description's folder, which the table also shows
};

// What a column of a table says over some of its lines.
struct TableFigure {
  std::string table, column;
  Conditions lines;  // heading of an axis -> titles; absent: all lines
  enum class Take {
    range,
    largest,
    smallest,
    all,
    above  // "11 of 12": in how many of the lines that have a value it is above `than`
  } take = Take::range;
  double than = 1;
};
template <>
struct Choices<TableFigure::Take> {
  static constexpr Choice<TableFigure::Take> all[] = {{TableFigure::Take::range, "range"},
                                                      {TableFigure::Take::largest, "largest"},
                                                      {TableFigure::Take::smallest, "smallest"},
                                                      {TableFigure::Take::all, "all"},
                                                      {TableFigure::Take::above, "above"}};
};

// Text that holds no number of its own: "{gain}" stands for the figure of that name.
struct Paragraph {
  std::string text;
  std::map<std::string, TableFigure> figures;
};

// One of the report's charts, of the comparisons that these records give.
enum class RecordChart {
  throughput,
  memory_throughput,
  communication,
  planners,
  time_to_accuracy,
  final_metric,
  curves  // over updates
};
template <>
struct Choices<RecordChart> {
  static constexpr Choice<RecordChart> all[] = {{RecordChart::throughput, "throughput"},
                                                {RecordChart::memory_throughput, "memory_throughput"},
                                                {RecordChart::communication, "communication"},
                                                {RecordChart::planners, "planners"},
                                                {RecordChart::time_to_accuracy, "time_to_accuracy"},
                                                {RecordChart::final_metric, "final_metric"},
                                                {RecordChart::curves, "curves"}};
};
struct ComparisonPicture {
  std::string name, title;
  RecordChart kind = RecordChart::throughput;
  Conditions where;
};

// Columns of an earlier table as bars: a panel for each entry of the first axis, a group for each of the others.
struct TablePicture {
  std::string name, title;
  std::string table;
  std::vector<std::string> columns;  // headings
  std::string relative_to;           // a heading: values are divided by its value in the same line; or ""
};

// What was published, and the same figure of a table.
struct PublishedFinding {
  std::string published, measure;
  TableFigure found;
};
struct PublishedFindings {
  std::string source;
  std::vector<PublishedFinding> findings;
};

// How far the virtual clock is from the wall clock (results/validation.h), by one field of the cases that ran on both.
struct ValidationTable {
  std::string name, title;
  enum class By { all, system, workload, micro_batch, transport, cases } by = By::all;
};
template <>
struct Choices<ValidationTable::By> {
  static constexpr Choice<ValidationTable::By> all[] = {{ValidationTable::By::all, "all"},
                                                        {ValidationTable::By::system, "system"},
                                                        {ValidationTable::By::workload, "workload"},
                                                        {ValidationTable::By::micro_batch, "micro_batch"},
                                                        {ValidationTable::By::transport, "transport"},
                                                        {ValidationTable::By::cases, "cases"}};
};
// Its axis and headings, to which charts and texts refer as to those of any table.
StudyTable description_of(const ValidationTable& table);
struct ValidationPicture {  // predicted over measured seconds of these cases
  std::string name;
};

struct FailedRuns {};  // the list of runs that are no result, with reasons
// The largest stable learning rate of each system, of records whose purpose is "boundary".
struct StableRateTables {};

struct Study {
  std::string name;  // of its file, without the ending
  std::string title, question;
  std::vector<Paragraph> answer;      // the answer, how sure it is, what would change it
  std::filesystem::path records;      // in the description's folder
  std::filesystem::path targets;      // single-device records that give the targets (results/targets.h); empty: each
                                      // record's own
  std::vector<std::string> commands;  // that make the records and the page again
  std::vector<std::variant<Paragraph, StudyTable, ValidationTable, ComparisonPicture, TablePicture, ValidationPicture,
                           PublishedFindings, FailedRuns, StableRateTables>>
      sections;
};

// The field with a figure (fields.h) of that name under `key`; throughput where there is none. Throws InputError with a
// suggestion.
const Field* study_metric(JsonReader& reader, const std::string& key);

// Throws InputError with file and JSON pointer: not JSON, a field missing, of the wrong type or unknown, a reference to
// a table, column or figure that is not there, or a number in the question or in a paragraph.
Study read_study(const std::filesystem::path& file);

}  // namespace sluice
