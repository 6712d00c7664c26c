// A struct as a JSON object, each member named once. The author of struct T writes
//
//   void fields(auto& v, T& t) {
//     v("title", t.title, {"What is trained."});
//     v.if_any("target", t.target);
//   }
//
// and write_fields(), read_fields() and schema_of_fields() write, read and describe T by it. A member is a bool, a
// number, a quantity (quantities.h), a text, a closed choice (choice.h), a struct with fields(), or an optional, a
// vector, a pair or a map of these. Integers are at least 0, and NaN and infinity are the texts "NaN", "Infinity" and
// "-Infinity".
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/base/choice.h"
#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/quantities.h"

namespace sluice {

struct FieldForm {
  const char* about = "";       // description in the schema
  double least = 0, most = -1;  // bounds of numbers; most < least: those of the type
  bool bounded() const { return most >= least; }
};

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_map = false;
template <class T>
inline constexpr bool is_map<std::map<std::string, T>> = true;

template <class T>
inline constexpr bool is_quantity = false;
template <class Tag, class Rep>
inline constexpr bool is_quantity<Quantity<Tag, Rep>> = true;

template <class T>
Json write_fields(const T& value);
// Throws InputError at the place of what is missing, of the wrong type, out of bounds or unknown; `unknown` is the
// advice about an unknown member.
template <class T>
T read_fields(JsonReader& in, const std::string& unknown);
template <class T>
Json schema_of_fields();

template <class T>
Json json_of(const T& value) {
  if constexpr (std::same_as<T, double>) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
  } else if constexpr (is_quantity<T>) {
    return json_of(value.value);
  } else if constexpr (ClosedChoice<T>) {
    return choice_name(value);
  } else if constexpr (is_optional<T>) {
    return value ? json_of(*value) : Json();
  } else if constexpr (is_vector<T>) {
    Json list = Json::array();
    for (const auto& element : value) list.push_back(json_of<typename T::value_type>(element));
    return list;
  } else if constexpr (is_pair<T>) {
    return Json::array({json_of(value.first), json_of(value.second)});
  } else if constexpr (is_map<T>) {
    Json object = Json::object();
    for (const auto& [name, element] : value) object[name] = json_of(element);
    return object;
  } else if constexpr (std::integral<T> || std::same_as<T, std::string>) {
    return value;
  } else {
    return write_fields(value);
  }
}

// Also of a name that no person may give.
template <ClosedChoice E>
E read_named(JsonReader& in, const std::string& key) {
  const std::string name = in.text(key);
  std::vector<std::string> names;
  for (const Choice<E>& choice : Choices<E>::all) {
    if (choice.name == name) return choice.value;
    names.emplace_back(choice.name);
  }
  in.fail(key, "'" + name + "' is not a " + key, suggestion(name, names));
}

// The value of a number or a text without its key, which costs most of the reading of long lists. None: value_at() has
// it, or its error.
template <class T>
std::optional<T> plain_value(const Json& value, const FieldForm& form) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    if (!value.is_number_unsigned()) return std::nullopt;
    const auto number = value.get<std::uint64_t>();
    if (!std::in_range<T>(number)) return std::nullopt;
    const T whole = static_cast<T>(number);
    if (form.bounded() && (whole < static_cast<T>(form.least) || whole > static_cast<T>(form.most)))
      return std::nullopt;
    return whole;
  } else if constexpr (std::same_as<T, double>) {
    if (!value.is_number()) return std::nullopt;
    const double number = value.get<double>();
    if (form.bounded() && !(number >= form.least && number <= form.most)) return std::nullopt;
    return number;
  } else if constexpr (std::same_as<T, std::string>) {
    return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  } else if constexpr (is_optional<T>) {
    if (value.is_null()) return T();
    std::optional<typename T::value_type> plain = plain_value<typename T::value_type>(value, form);
    return plain ? std::optional<T>(std::move(plain)) : std::nullopt;
  } else {
    return std::nullopt;
  }
}

template <class T>
T value_at(JsonReader& in, const std::string& key, const FieldForm& form, const std::string& unknown) {
  if constexpr (std::same_as<T, bool>) {
    return in.boolean(key);
  } else if constexpr (std::integral<T>) {
    if (!form.bounded()) return in.integer<T>(key, 0, std::numeric_limits<T>::max());
    return in.integer<T>(key, static_cast<T>(form.least), static_cast<T>(form.most));
  } else if constexpr (std::same_as<T, double>) {
    return form.bounded() ? in.number(key, form.least, form.most) : in.any_number(key);
  } else if constexpr (std::same_as<T, std::string>) {
    return in.text(key);
  } else if constexpr (is_quantity<T>) {
    return T(value_at<decltype(T::value)>(in, key, form, unknown));
  } else if constexpr (ClosedChoice<T>) {
    return read_named<T>(in, key);
  } else if constexpr (is_optional<T>) {
    if (in.is_null(key)) return std::nullopt;
    return value_at<typename T::value_type>(in, key, form, unknown);
  } else if constexpr (is_vector<T>) {
    using Element = typename T::value_type;
    T values;
    JsonReader list = in.list(key);
    values.reserve(list.json().size());
    for (const Json& element : list.json()) {
      if (std::optional<Element> plain = plain_value<Element>(element, form))
        values.push_back(*std::move(plain));
      else
        values.push_back(value_at<Element>(list, std::to_string(values.size()), form, unknown));
    }
    return values;
  } else if constexpr (is_pair<T>) {
    JsonReader list = in.list(key);
    if (list.size() != 2) in.fail(key, "must be a pair");
    return {value_at<typename T::first_type>(list, "0", form, unknown),
            value_at<typename T::second_type>(list, "1", form, unknown)};
  } else if constexpr (is_map<T>) {
    T values;
    JsonReader object = in.object(key);
    for (const std::string& name : object.keys())
      values[name] = value_at<typename T::mapped_type>(object, name, form, unknown);
    return values;
  } else {
    JsonReader object = in.object(key);
    return read_fields<T>(object, unknown);
  }
}

template <class T>
Json schema_of(const FieldForm& form) {
  if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::integral<T>) {
    if (!form.bounded()) return {{"type", "integer"}, {"minimum", 0}, {"maximum", std::numeric_limits<T>::max()}};
    return {{"type", "integer"},
            {"minimum", static_cast<std::int64_t>(form.least)},
            {"maximum", static_cast<std::int64_t>(form.most)}};
  } else if constexpr (std::same_as<T, double>) {
    if (!form.bounded()) return {{"$ref", "#/$defs/number"}};
    return {{"type", "number"}, {"minimum", form.least}, {"maximum", form.most}};
  } else if constexpr (std::same_as<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (ClosedChoice<T>) {
    Json names = Json::array();
    for (const auto& choice : Choices<T>::all) names.push_back(choice.name);
    return {{"enum", names}};
  } else if constexpr (is_optional<T>) {
    return {{"anyOf", Json::array({schema_of<typename T::value_type>(form), {{"type", "null"}}})}};
  } else if constexpr (is_vector<T>) {
    return {{"type", "array"}, {"items", schema_of<typename T::value_type>(form)}};
  } else if constexpr (is_pair<T>) {
    return {{"type", "array"}, {"items", schema_of<typename T::first_type>(form)}, {"minItems", 2}, {"maxItems", 2}};
  } else if constexpr (is_map<T>) {
    return {{"type", "object"}, {"additionalProperties", schema_of<typename T::mapped_type>(form)}};
  } else {
    return schema_of_fields<T>();
  }
}

// What fields() calls, for writing.
class FieldWriter {
 public:
  template <class T>
  void operator()(const char* name, const T& member, const FieldForm& /*form*/ = {}) {
    json_[name] = json_of(member);
  }
  // A member that is left out of the object unless `written`; a reader keeps its default where it is missing.
  template <class T>
  void where(bool written, const char* name, const T& member, const FieldForm& /*form*/ = {}) {
    if (!written) return;
    if constexpr (is_optional<T>)
      json_[name] = json_of(*member);
    else
      json_[name] = json_of(member);
  }
  // One that is left out where it holds nothing: none, 0, false, or empty.
  template <class T>
  void if_any(const char* name, const T& member, const FieldForm& form = {}) {
    if constexpr (is_vector<T>)
      where(!member.empty(), name, member, form);
    else if constexpr (is_optional<T>)
      where(member.has_value(), name, member, form);
    else
      where(member != T(), name, member, form);
  }
  // An empty object where there is none.
  template <class T>
  void or_empty(const char* name, const std::optional<T>& member, const FieldForm& /*form*/ = {}) {
    json_[name] = member ? json_of(*member) : Json::object();
  }
  // null where the list is empty.
  template <class T>
  void or_null(const char* name, const std::vector<T>& member, const FieldForm& /*form*/ = {}) {
    json_[name] = member.empty() ? Json() : json_of(member);
  }
  // The members of a part among those of the whole: all, or none, which `first` tells.
  template <class T>
  void among(const char* /*first*/, std::optional<T>& member) {
    if (member) fields(*this, *member);
  }
  template <class... Any>
  void expect(const Any&... /*of a reader*/) {}
  Json& json() { return json_; }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

class FieldReader {
 public:
  FieldReader(JsonReader& in, const std::string& unknown) : in_(in), unknown_(unknown) {}
  template <class T>
  void operator()(const char* name, T& member, const FieldForm& form = {}) {
    member = value_at<T>(in_, name, form, unknown_);
  }
  template <class T>
  void where(bool /*written*/, const char* name, T& member, const FieldForm& form = {}) {
    if (!in_.has(name)) return;
    if constexpr (is_optional<T>)
      member = value_at<typename T::value_type>(in_, name, form, unknown_);
    else
      member = value_at<T>(in_, name, form, unknown_);
  }
  template <class T>
  void if_any(const char* name, T& member, const FieldForm& form = {}) {
    where(true, name, member, form);
  }
  template <class T>
  void or_empty(const char* name, std::optional<T>& member, const FieldForm& /*form*/ = {}) {
    JsonReader object = in_.object(name);
    if (object.size() > 0) member = read_fields<T>(object, unknown_);
  }
  template <class T>
  void or_null(const char* name, std::vector<T>& member, const FieldForm& form = {}) {
    if (!in_.is_null(name)) (*this)(name, member, form);
  }
  template <class T>
  void among(const char* first, std::optional<T>& member) {
    if (!in_.has(first)) return;
    T value;  // clang 16 has no emplace() for a struct within another one
    fields(*this, value);
    member = std::move(value);
  }
  // Throws InputError at the member, which has been read, where `holds` is false.
  void expect(bool holds, const char* name, const std::string& what, const char* advice) {
    if (!holds) in_.fail(name, what, advice);
  }
  JsonReader& in() { return in_; }
  const std::string& unknown() const { return unknown_; }

 private:
  JsonReader& in_;
  const std::string& unknown_;
};

class FieldSchema {
 public:
  void describe(const char* name, Json schema, const FieldForm& form) {
    if (form.about[0] != '\0') schema["description"] = form.about;
    properties_[name] = std::move(schema);
  }
  void require(const char* name) { required_.push_back(name); }
  template <class T>
  void operator()(const char* name, const T& /*member*/, const FieldForm& form = {}) {
    require(name);
    describe(name, schema_of<T>(form), form);
  }
  template <class T>
  void where(bool /*written*/, const char* name, const T& /*member*/, const FieldForm& form = {}) {
    if constexpr (is_optional<T>)
      describe(name, schema_of<typename T::value_type>(form), form);
    else
      describe(name, schema_of<T>(form), form);
  }
  template <class T>
  void if_any(const char* name, const T& member, const FieldForm& form = {}) {
    where(true, name, member, form);
  }
  template <class T>
  void or_empty(const char* name, const std::optional<T>& /*member*/, const FieldForm& form = {}) {
    require(name);
    describe(name, {{"anyOf", Json::array({{{"type", "object"}, {"maxProperties", 0}}, schema_of<T>({})})}}, form);
  }
  template <class T>
  void or_null(const char* name, const std::vector<T>& /*member*/, const FieldForm& form = {}) {
    (*this)(name, std::optional<std::vector<T>>(), form);
  }
  template <class T>
  void among(const char* first, std::optional<T>& /*member*/) {
    FieldSchema part;
    T none;
    fields(part, none);
    properties_.update(part.properties_);
    together_[first] = part.required_;
  }
  template <class... Any>
  void expect(const Any&... /*of a reader*/) {}
  Json take() {
    Json schema = {
        {"type", "object"}, {"properties", properties_}, {"required", required_}, {"additionalProperties", false}};
    if (!together_.empty()) schema["dependentRequired"] = together_;
    return schema;
  }

 private:
  Json properties_ = Json::object(), required_ = Json::array(), together_ = Json::object();
};

template <class T>
Json write_fields(const T& value) {
  FieldWriter writer;
  fields(writer, const_cast<T&>(value));  // which only reads it
  return writer.take();
}

template <class T>
T read_fields(JsonReader& in, const std::string& unknown) {
  T value;
  FieldReader reader(in, unknown);
  fields(reader, value);
  in.no_other_keys(unknown);
  return value;
}

template <class T>
Json schema_of_fields() {
  FieldSchema schema;
  T none;
  fields(schema, none);
  return schema.take();
}

}  // namespace sluice
