// How the fields of a record are read: counts, closed choices, and nothing that this program does not know.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <string>
#include <vector>

#include "harness/base/choice.h"
#include "harness/base/error.h"
#include "harness/base/json_reader.h"

namespace sluice {

inline constexpr const char* kRecordSchema = "sluice/record/2";
inline constexpr const char* kFirstRecordSchema = "sluice/record/1";  // is read, no longer written

template <std::integral Int>
Int read_count(JsonReader& reader, const std::string& key) {
  return reader.integer<Int>(key, 0, std::numeric_limits<Int>::max());
}

template <std::integral Int>
std::vector<Int> read_counts(JsonReader& reader, const std::string& key) {
  return reader.integers<Int>(key, 0, std::numeric_limits<Int>::max());
}

// Also of a name that no person may give.
template <ClosedChoice E>
E read_named(JsonReader& reader, const std::string& key) {
  const std::string name = reader.text(key);
  std::vector<std::string> names;
  for (const Choice<E>& choice : Choices<E>::all) {
    if (choice.name == name) return choice.value;
    names.emplace_back(choice.name);
  }
  reader.fail(key, "'" + name + "' is not a " + key, suggestion(name, names));
}

inline void no_other_fields(const JsonReader& reader) {
  reader.no_other_keys("is the file from a newer version of sluice? This one reads " + std::string(kRecordSchema));
}

}  // namespace sluice
