#include "results/flat_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "harness/base/json.h"
#include "harness/base/markdown_text.h"
#include "harness/base/visible_text.h"

namespace sluice {
namespace {

std::string flat_csv_cell(const FlatCell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  const auto* text = std::get_if<std::string>(&cell);
  if (!text) return "";
  return csv_cell(*text);
}

std::string replaced(const std::string& text, std::string_view (*of)(char)) {
  std::string result;
  for (const char c : text) {
    const std::string_view instead = of(c);
    if (instead.empty()) {
      result += c;
    } else {
      result += instead;
    }
  }
  return result;
}

}  // namespace

std::string latex_text(const std::string& text) {
  return replaced(visible(text), [](char c) -> std::string_view {
    switch (c) {
      case '&':
        return "\\&";
      case '%':
        return "\\%";
      case '$':
        return "\\$";
      case '#':
        return "\\#";
      case '_':
        return "\\_";
      case '{':
        return "\\{";
      case '}':
        return "\\}";
      case '~':
        return "\\textasciitilde{}";
      case '^':
        return "\\textasciicircum{}";
      case '\\':
        return "\\textbackslash{}";
      default:
        return "";
    }
  });
}

std::string to_csv(const FlatTable& table) {
  std::string csv;
  const auto line = [&](const auto& cells, auto text_of) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) csv += ',';
      csv += text_of(cells[i]);
    }
    csv += '\n';
  };
  line(table.columns, [](const std::string& name) { return csv_cell(name); });
  for (const auto& row : table.rows) line(row, flat_csv_cell);
  return csv;
}

std::string to_json_lines(const FlatTable& table) {
  std::string lines;
  for (const auto& row : table.rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      Json& value = object[table.columns[i]];
      if (const auto* integer = std::get_if<std::int64_t>(&row[i])) {
        value = *integer;
      } else if (const auto* number = std::get_if<double>(&row[i])) {
        if (std::isfinite(*number)) {
          value = *number;
        } else {
          value = fmt::format("{}", *number);
        }
      } else if (const auto* text = std::get_if<std::string>(&row[i])) {
        value = *text;
      } else {
        object.erase(table.columns[i]);
      }
    }
    lines += object.dump() + "\n";
  }
  return lines;
}

std::string to_text(const TextTable& printed) {
  TextTable table = printed;
  for (TextTable::Column& column : table.columns) {
    column.name = visible(column.name);
    for (std::string& cell : column.cells) cell = visible(cell);
  }
  std::vector<std::string> lines(table.rows + 2);
  for (const TextTable::Column& column : table.columns) {
    std::size_t wide = letters(column.name);
    for (const std::string& cell : column.cells) wide = std::max(wide, letters(cell));
    const auto put = [&](std::string& line, const std::string& cell) {
      const std::string pad(wide - letters(cell), ' ');
      if (!line.empty()) line += "  ";
      line += column.right ? pad + cell : cell + pad;
    };
    put(lines[0], column.name);
    put(lines[1], std::string(wide, '-'));
    for (std::size_t i = 0; i < table.rows; ++i) put(lines[i + 2], column.cells[i]);
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string to_markdown(const TextTable& table) {
  std::string text = "|", rule = "|";
  for (const TextTable::Column& column : table.columns) {
    text += " " + markdown_text(column.name) + " |";
    rule += column.right ? " ---: |" : " --- |";
  }
  text += "\n" + rule + "\n";
  for (std::size_t i = 0; i < table.rows; ++i) {
    text += "|";
    for (const TextTable::Column& column : table.columns) text += " " + markdown_text(column.cells[i]) + " |";
    text += "\n";
  }
  return text;
}

std::string to_latex(const TextTable& table) {
  std::string kinds, head, body;
  for (const TextTable::Column& column : table.columns) {
    kinds += column.right ? "r" : "l";
    head += (head.empty() ? "" : " & ") + latex_text(column.name);
  }
  for (std::size_t i = 0; i < table.rows; ++i) {
    std::string line;
    for (const TextTable::Column& column : table.columns)
      line += (&column == &table.columns.front() ? "" : " & ") + latex_text(column.cells[i]);
    body += line + " \\\\\n";
  }
  return "\\begin{tabular}{" + kinds + "}\n\\toprule\n" + head + " \\\\\n\\midrule\n" + body +
         "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace sluice
