// See page_files.h.
#include "plots/page_files.h"

#include "harness/base/json.h"

namespace sluice {

std::string script_json(const Json& value) {
  std::string json = value.dump();
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at + 1))
    json.replace(at, 1, "\\u003c");
  return json;
}

}  // namespace sluice
