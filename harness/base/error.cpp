#include "harness/base/error.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace sluice {

// what() ends at the first NUL, which a name in a JSON file may hold.
static std::string without_nul(std::string text) {
  for (std::size_t at = 0; (at = text.find('\0', at)) != std::string::npos;) text.replace(at, 1, "\\u0000");
  return text;
}

InputError::InputError(const std::string& where, const std::string& what, const std::string& advice)
    : std::runtime_error(
          without_nul((where.empty() ? "" : where + ": ") + what + (advice.empty() ? "" : "; " + advice))) {}

static std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

static std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name)
    result += c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  const std::string wanted = folded(name);
  std::string best, longer;
  // Less than the whole name, which would be near every name of as many letters.
  std::size_t best_distance = std::min(std::max<std::size_t>(2, wanted.size() / 3) + 1, wanted.size());
  for (const std::string& candidate : candidates) {
    const std::string other = folded(candidate);
    const std::size_t apart = std::max(wanted.size(), other.size()) - std::min(wanted.size(), other.size());
    const std::size_t distance = apart < best_distance ? edit_distance(wanted, other) : apart;  // it is no less
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
    const bool contains = wanted.size() >= 3 && other.find(wanted) != std::string::npos;
    if (contains && (longer.empty() || candidate.size() < longer.size())) longer = candidate;
  }
  return best.empty() ? longer : best;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = nearest(name, candidates);
  if (!near.empty()) return "did you mean '" + near + "'?";
  std::string list;
  for (const std::string& candidate : candidates) list += (list.empty() ? "" : ", ") + candidate;
  return list.empty() ? "none is known here" : "known: " + list;
}

}  // namespace sluice
