// The format of help and lists: names and descriptions in two columns, wrapped to a width.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace sluice {

inline constexpr std::size_t kHelpWidth = 100;  // of help, for any terminal

// Columns of stdout's terminal, at least 40; without a terminal $COLUMNS, or else 100.
std::size_t terminal_width();

// The words of `text`; every line except the first begins with `indent` blanks, and the first begins in that column.
// Only a word that is longer than `width` makes a longer line.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

// CLI11's help with an option's flag and its description in two columns.
class WrappedHelp : public CLI::Formatter {
 public:
  WrappedHelp();
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace sluice
