// How a setting is read from JSON into its member of RunCase and written back, for every type of member.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/case/case.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"

namespace sluice {

// The state while one object of a sweep's grid becomes a case. The settings are read in the order of their table, so
// that each may use those above it.
struct CaseReading {
  JsonReader& entry;
  RunCase c = {};
  const System* system = nullptr;
  const Workload* workload = nullptr;
  std::optional<PipelineSize> made_for = {};  // System::made_for
  bool tuned = false;                         // "optimizer": {"learning_rate": "tuned"}
};

struct SettingValue {
  enum class Type { text, choice, number, boolean, list, object } type = Type::object;
  std::vector<std::string> choices = {};  // for a closed choice: the accepted names
  // Reads the key into the case; without the key, the case keeps its value. Throws InputError.
  std::function<void(CaseReading&, const std::string& key)> read = {};
  std::function<Json(const RunCase&)> write = {};  // null: the case has none
  std::function<void(RunCase&)> reset = {};        // gives it its default
};

// Members of each type that are read and written without conversion.
namespace setting {

template <class T>
std::function<Json(const RunCase&)> write_as_it_is(T RunCase::*member) {
  return [member](const RunCase& c) { return Json(c.*member); };
}

template <class T>
std::function<void(RunCase&)> reset_to_default(T RunCase::*member) {
  return [member](RunCase& c) { c.*member = RunCase().*member; };
}

inline SettingValue text(std::string RunCase::*member) {
  return {.type = SettingValue::Type::text,
          .read = [member](CaseReading& r, const std::string& key) { r.c.*member = r.entry.text(key, r.c.*member); },
          .write = write_as_it_is(member),
          .reset = reset_to_default(member)};
}

template <ClosedChoice E>
SettingValue choice(E RunCase::*member) {
  return {
      .type = SettingValue::Type::choice,
      .choices = choice_names<E>(),
      .read = [member](CaseReading& r, const std::string& key) { r.c.*member = r.entry.choice_or(key, r.c.*member); },
      .write = [member](const RunCase& c) { return Json(choice_name(c.*member)); },
      .reset = reset_to_default(member)};
}

// Integers from `least` on.
template <std::integral Int>
SettingValue integer(Int RunCase::*member, int least,
                     std::int64_t most = std::same_as<Int, int> ? kMaxCount : kMaxWhole) {
  return {.type = SettingValue::Type::number,
          .read =
              [member, least, most](CaseReading& r, const std::string& key) {
                r.c.*member =
                    r.entry.integer_or<Int>(key, r.c.*member, static_cast<Int>(least), static_cast<Int>(most));
              },
          .write = write_as_it_is(member),
          .reset = reset_to_default(member)};
}

inline SettingValue not_negative(double RunCase::*member, double most) {
  return {
      .type = SettingValue::Type::number,
      .read = [member, most](CaseReading& r,
                             const std::string& key) { r.c.*member = r.entry.number_or(key, r.c.*member, 0, most); },
      .write = write_as_it_is(member)};
}

inline SettingValue boolean(bool RunCase::*member) {
  return {.type = SettingValue::Type::boolean,
          .read = [member](CaseReading& r, const std::string& key) { r.c.*member = r.entry.boolean(key, r.c.*member); },
          .write = write_as_it_is(member)};
}

}  // namespace setting

}  // namespace sluice
