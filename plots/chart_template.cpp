// See chart_template.h.
#include "plots/chart_template.h"

#include <optional>
#include <stdexcept>

#include "plots/page_files.h"

namespace sluice {
namespace {

Json parsed(std::string_view name) {
  const std::string file = std::string(name) + ".vl.json";
  return Json::parse(page_file(file), "plots/page/" + file);
}

class Filler {
 public:
  Filler(const Json& chart, const Json& values) : definitions_{chart.find("$define"), nullptr}, scopes_{&values} {
    static const Json shared = parsed("frame");
    definitions_.back() = shared.find("$define");
  }

  // None: its condition is not met.
  std::optional<Json> fill(const Json& node) {
    if (node.is_string()) {
      auto text = node.get<std::string>();
      if (!text.starts_with('$')) return node;
      const bool is_optional = text.ends_with('?');
      std::optional<Json> value = named(text.substr(1, text.size() - 1 - is_optional));
      return is_optional && value == Json() ? std::nullopt : value;
    }
    if (node.is_array()) {
      Json filled = Json::array();
      for (const Json& element : node) append(element, filled);
      return filled;
    }
    if (!node.is_object()) return node;
    if (const Json* condition = node.find("$if"); condition && !is_met(condition->get<std::string>())) return {};
    Json filled = Json::object();
    if (const Json* base = node.find("$use")) filled = named(base->get<std::string>()).value();
    for (const auto& [key, member] : node.items()) {
      if (key.starts_with('$') && key != "$schema") continue;
      if (std::optional<Json> value = fill(member)) filled[key] = *std::move(value);
    }
    return filled;
  }

 private:
  void append(const Json& element, Json& filled) {
    const Json* each = element.find("$each");
    if (!each) {
      if (std::optional<Json> value = fill(element)) filled.push_back(*std::move(value));
      return;
    }
    const Json* list = element.find("$list");
    for (const Json& scope : each->is_string() ? named(each->get<std::string>()).value() : *each) {
      scopes_.push_back(&scope);
      if (list) {
        for (const Json& one : *list) append(one, filled);
      } else if (std::optional<Json> value = fill(element)) {
        filled.push_back(*std::move(value));
      }
      scopes_.pop_back();
    }
  }

  bool is_met(const std::string& condition) {
    const bool is_negated = condition.starts_with('!');
    const Json value = named(condition.substr(is_negated)).value();
    return (value.is_null() || value == Json(false)) == is_negated;
  }

  std::optional<Json> named(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const Json* value = (*scope)->find(name)) return *value;
    for (const Json* definitions : definitions_)
      if (const Json* definition = definitions ? definitions->find(name) : nullptr) return fill(*definition);
    throw std::logic_error("a chart's template has no value for $" + name);
  }

  std::vector<const Json*> definitions_;
  std::vector<const Json*> scopes_;  // the innermost last
};

}  // namespace

Json filled_template(const Json& chart, const Json& values) { return Filler(chart, values).fill(chart).value(); }

Json filled_chart(std::string_view name, const Json& values) { return filled_template(parsed(name), values); }

Json filled_chart(std::string_view name, const std::string& title, const std::vector<std::string>& subtitle,
                  Json values) {
  values["title"] = title;
  values["subtitle"] = subtitle;
  return filled_chart(name, values);
}

}  // namespace sluice
