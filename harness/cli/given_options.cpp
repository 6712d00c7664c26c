#include "harness/base/error.h"
#include "harness/cli/commands.h"

namespace sluice {

std::map<std::string, std::string> given_options(const std::vector<std::string>& set) {
  std::map<std::string, std::string> result;
  for (const std::string& text : set) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw InputError("--set", "'" + text + "' is not key=value");
    result[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return result;
}

}  // namespace sluice
