#include "results/record_filter.h"

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "results/fields.h"

namespace sluice {
namespace {

struct Filter {
  std::string text, key;
  bool equal = true;
  std::vector<std::string> values;
};

Filter parse(const std::string& text) {
  Filter filter{text};
  const std::size_t equals = text.find('=');
  const bool different = equals != std::string::npos && equals > 0 && text[equals - 1] == '!';
  if (equals == std::string::npos || equals == (different ? 1u : 0u))
    throw InputError("--filter", "'" + text + "' is no filter", "write system=gpipe,one_f_one_b or ranks!=2");
  filter.equal = !different;
  filter.key = text.substr(0, equals - (different ? 1 : 0));
  for (std::size_t begin = equals + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    filter.values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return filter;
}

// Settings and the outcome.
bool can_filter(const Field& field) {
  return !field.column.empty() && (field.kind == FieldKind::setting || field.name == "outcome");
}

std::optional<std::string> value_of(const Record& r, const std::string& key) {
  if (key == "commit") return r.environment.machine ? r.environment.machine->commit : "";
  if (key == "rate") return r.tuning ? "tuned" : "given";
  if (key == "optimizer")
    return r.optimizer ? std::optional<std::string>(to_json(*r.optimizer).at("kind").get<std::string>()) : std::nullopt;
  if (const Field* field = find_field(key); field && can_filter(*field)) {
    const FlatCell cell = field->get(r);
    if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
    return std::get<std::string>(cell);
  }
  const auto option = r.options.find(key);
  return option == r.options.end() ? std::nullopt : std::optional(option->second);
}

bool meets(const Record& record, const Filter& filter) {
  const std::optional<std::string> value = value_of(record, filter.key);
  const bool one_of =
      value && std::ranges::any_of(filter.values, [&](const std::string& wanted) {
        return filter.key == "commit" ? !wanted.empty() && value->starts_with(wanted) : *value == wanted;
      });
  return one_of == filter.equal;
}

}  // namespace

std::vector<Record> filtered(std::vector<Record> records, const std::vector<std::string>& filters) {
  for (const std::string& text : filters) {
    const Filter filter = parse(text);
    if (std::ranges::none_of(records, [&](const Record& r) { return value_of(r, filter.key).has_value(); })) {
      std::vector<std::string> known = {"commit", "rate", "optimizer"};
      for (const Field& field : record_fields())
        if (can_filter(field)) known.push_back(field.name);
      for (const Record& r : records)
        for (const auto& [name, value] : r.options)
          if (std::ranges::count(known, name) == 0) known.push_back(name);
      throw InputError("--filter", "no record has '" + filter.key + "'", suggestion(filter.key, known));
    }
    std::erase_if(records, [&](const Record& record) { return !meets(record, filter); });
    if (records.empty()) throw InputError("--filter", "no record meets '" + text + "'");
  }
  return records;
}

}  // namespace sluice
