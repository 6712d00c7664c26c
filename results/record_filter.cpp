#include "results/record_filter.h"

#include <algorithm>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/pipeline/system.h"
#include "results/fields.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {
namespace {

struct Filter {
  std::string text, key, values;
  bool equal = true;
};

Filter parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  const bool different = equals != std::string::npos && equals > 0 && text[equals - 1] == '!';
  if (equals == std::string::npos || equals == (different ? 1u : 0u))
    throw InputError("--filter", "'" + text + "' is no filter", "write system=gpipe,one_f_one_b or ranks!=2");
  return {text, text.substr(0, equals - (different ? 1 : 0)), text.substr(equals + 1), !different};
}

// Splits `text` at commas, except inside a value that occurs: the longest one in `occurring` that begins at a place and
// ends at a comma or the end is one value ("flat:8,memory=16GiB").
std::set<std::string> split_values(const std::string& text, const std::set<std::string>& occurring) {
  std::set<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    for (std::size_t longer = end; longer < text.size();) {
      longer = std::min(text.find(',', longer + 1), text.size());
      if (occurring.contains(text.substr(begin, longer - begin))) end = longer;
    }
    values.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

// Settings and the outcome.
bool can_filter(const Field& field) {
  return !field.column.empty() && (field.kind == FieldKind::setting || field.name == "outcome");
}

// None where the record lacks it; all names of a system; the optimizer's kind, and its whole text.
std::vector<std::string> values_of(const Record& r, const std::string& key) {
  if (key == "commit") return {r.environment.machine ? r.environment.machine->commit : ""};
  if (key == "rate") return {r.tuning ? "tuned" : "given"};
  if (key == "duration") return {duration_text(r)};
  if (key == "optimizer") {
    if (!r.optimizer) return {};
    return {to_json(*r.optimizer).at("kind").get<std::string>(), optimizer_text(r)};
  }
  if (key == "system") {
    std::vector<std::string> names = {r.system, system_style(r.system).title};
    if (const System* known = system_called(r.system))
      names.insert(names.end(), known->aliases.begin(), known->aliases.end());
    return names;
  }
  if (const Field* field = find_field(key); field && can_filter(*field)) {
    const FlatCell cell = field->get(r);
    if (const auto* integer = std::get_if<std::int64_t>(&cell)) return {std::to_string(*integer)};
    return {std::get<std::string>(cell)};
  }
  const auto option = r.options.find(key);
  return option == r.options.end() ? std::vector<std::string>{} : std::vector{option->second};
}

}  // namespace

std::vector<Record> filtered(std::vector<Record> records, const std::vector<std::string>& filters) {
  for (const std::string& text : filters) {
    const Filter filter = parse(text);
    std::set<std::string> occurring;
    for (const Record& r : records)
      for (std::string& value : values_of(r, filter.key)) occurring.insert(std::move(value));
    if (occurring.empty() && !records.empty()) {
      std::vector<std::string> known = {"commit", "rate", "duration", "optimizer"};
      for (const Field& field : record_fields())
        if (can_filter(field)) known.push_back(field.name);
      for (const Record& r : records)
        for (const auto& [name, value] : r.options)
          if (std::ranges::count(known, name) == 0) known.push_back(name);
      throw InputError("--filter", "no record has '" + filter.key + "'", suggestion(filter.key, known));
    }
    const std::set<std::string> wanted = split_values(filter.values, occurring);
    std::erase_if(records, [&](const Record& record) {
      const bool one_of = std::ranges::any_of(values_of(record, filter.key), [&](const std::string& value) {
        if (filter.key != "commit") return wanted.contains(value);
        return std::ranges::any_of(wanted, [&](const std::string& w) { return !w.empty() && value.starts_with(w); });
      });
      return one_of != filter.equal;
    });
    if (records.empty()) throw InputError("--filter", "no record meets '" + text + "'");
  }
  return records;
}

}  // namespace sluice
