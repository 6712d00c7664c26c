#include "harness/base/error.h"
#include "harness/cli/commands.h"

namespace sluice {

std::map<std::string, std::string> parse_settings(const std::vector<std::string>& settings) {
  std::map<std::string, std::string> result;
  for (const std::string& text : settings) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw InputError("--set", "'" + text + "' is not key=value");
    result[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return result;
}

}  // namespace sluice
