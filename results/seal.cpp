#include "results/seal.h"

#include <fmt/format.h>

#include <cstdint>

#include "harness/base/json.h"

namespace sluice {

std::string hash_of_text(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return fmt::format("{:016x}", hash);
}

// What stands behind the other members.
static std::string tail(const std::string& seal) { return fmt::format(",\"{}\":\"{}\"}}", kSeal, seal); }

std::string sealed(std::string object) {
  const std::string end = tail(hash_of_text(object));
  object.pop_back();
  return object + end;
}

bool has_broken_seal(std::string_view line, const Json& value) {
  const Json* const found = value.find(kSeal);
  if (!found) return false;
  if (!found->is_string()) return true;
  const std::string seal = found->get<std::string>(), end = tail(seal);
  if (line.ends_with(end) && hash_of_text(std::string(line.substr(0, line.size() - end.size())) + '}') == seal)
    return false;
  Json others = Json::parse(line);  // another program may have written the line anew
  others.erase(kSeal);
  return hash_of_text(others.dump()) != seal;
}

}  // namespace sluice
