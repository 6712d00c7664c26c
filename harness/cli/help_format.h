// How help and lists are set: names and descriptions in two columns, wrapped to a width.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace sluice {

inline constexpr std::size_t kHelpWidth = 100;  // of help, whatever the terminal

// Columns of the terminal that stdout is, at least 40; $COLUMNS where it is none and this is set, else 100.
std::size_t terminal_width();

// The words of `text`, every line after the first begun with `indent` blanks; the first begins in that column. No line
// is longer than `width`, but for a word that is.
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
