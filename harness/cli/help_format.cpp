#include "harness/cli/help_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "harness/base/numbers.h"
#include "plots/style.h"

namespace sluice {

static constexpr std::size_t kFlagWidth = 28;

std::size_t terminal_width() {
  constexpr std::size_t least = 40;
  winsize size{};
  if (::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<std::size_t>(least, size.ws_col);
  const int given = number_in_environment("COLUMNS").value_or(0);
  return given > 0 ? std::max(least, static_cast<std::size_t>(given)) : kHelpWidth;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  return fmt::format("{}", fmt::join(wrapped(text, width - std::min(indent, width)), "\n" + std::string(indent, ' ')));
}

static std::string description_of(const CLI::Option* option) {
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += " (default: " + option->get_default_str() + ")";
  if (option->get_required() && option->nonpositional()) text += " (required)";
  return text;
}

WrappedHelp::WrappedHelp() { column_width(kFlagWidth); }

std::string WrappedHelp::make_option(const CLI::Option* option, bool is_positional) const {
  std::string flag = "  " + make_option_name(option, is_positional) + make_option_opts(option);
  const bool fits = flag.size() < kFlagWidth;
  flag += fits ? std::string(kFlagWidth - flag.size(), ' ') : "\n" + std::string(kFlagWidth, ' ');
  return flag + wrapped(description_of(option), kFlagWidth, kHelpWidth) + "\n";
}

// Without the second of the two empty lines that CLI11 puts between groups.
std::string WrappedHelp::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, name, mode), "\n\n\n", "\n\n");
}

std::string WrappedHelp::make_option_opts(const CLI::Option* option) const {
  return option->get_type_size() == 0 || option->get_type_name().empty() ? "" : " " + option->get_type_name();
}

}  // namespace sluice
