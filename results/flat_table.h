// Tables of plain values, for spreadsheets, data frames and papers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

using FlatCell = std::variant<std::monostate, std::int64_t, double, std::string>;  // monostate: not measured

// A cell for any value of a record; empty if the value is absent.
inline FlatCell flat(FlatCell cell) { return cell; }
inline FlatCell flat(const std::string& text) { return text; }
inline FlatCell flat(const char* text) { return std::string(text); }
inline FlatCell flat(double value) { return value; }
template <std::integral Integer>
FlatCell flat(Integer value) {
  if (!std::in_range<std::int64_t>(value)) return std::to_string(value);
  return static_cast<std::int64_t>(value);
}
template <class T>
FlatCell flat(const std::optional<T>& value) {
  return value ? flat(*value) : FlatCell();
}

struct FlatTable {
  std::vector<std::string> columns;
  std::vector<std::vector<FlatCell>> rows;  // each with one cell per column
};

// After RFC 4180: UTF-8, a header line, "." as the decimal point, empty for values that were not measured, numbers in
// the fewest digits that read back to the same number.
std::string to_csv(const FlatTable& table);

// One JSON object per row, without values that were not measured. Infinite values and NaN are texts.
std::string to_json_lines(const FlatTable& table);

// For pages and papers: cells are texts, numbers are right-aligned. Every output format escapes the texts, so nothing
// in them controls the terminal, Markdown or LaTeX.
struct TextTable {
  struct Column {
    std::string name;
    bool right = true;
    std::vector<std::string> cells;
  };
  std::vector<Column> columns;
  std::size_t rows = 0;
};
std::string to_text(const TextTable& table);      // aligned, for a terminal
std::string to_markdown(const TextTable& table);  // GitHub's tables
std::string to_latex(const TextTable& table);     // a tabular with booktabs' rules
std::string latex_text(const std::string& text);  // escapes characters that are LaTeX commands

}  // namespace sluice
