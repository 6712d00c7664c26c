#include "harness/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "harness/base/error.h"
#include "harness/base/visible_text.h"

namespace sluice {
namespace {

using nlohmann::json;

[[noreturn]] void not_of_type(const Json& value, const std::string& expected) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  throw JsonError("expected " + expected + ", found " + value.type_name() + ": " + text);
}

// nlohmann's copy of the value, which it writes.
json to_library(const Json& value) {
  if (value.is_object()) {
    json object = json::object();
    for (const auto& [key, member] : value.items()) object[key] = to_library(member);
    return object;
  }
  if (value.is_array()) {
    json array = json::array();
    for (const Json& element : value) array.push_back(to_library(element));
    return array;
  }
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return nullptr;
}

}  // namespace

// Builds the value from the events of nlohmann's parser, and stops it at what it would let pass: a key twice, and
// nesting that a recursive reader cannot follow.
class JsonBuilder : public json::json_sax_t {
 public:
  explicit JsonBuilder(std::string_view left_out = {}) : left_out_(left_out) {}
  // Gives the elements of the outermost array, or of this member of the outermost object, to on_element.
  JsonBuilder(std::string_view given, const Json::OnElement& on_element) : given_(given), on_element_(&on_element) {}

  Json result;
  std::string rejection;  // what is wrong; empty: nothing
  std::string pointer;    // where, unless `byte` says it
  std::size_t byte = 0;   // from 1; 0: not known

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (left_out_depth_ > 0) return true;
    auto& object = std::get<Json::Object>(open_.back().value->value_);
    const std::size_t members = object.size();
    member_ = &*object.try_emplace(object.end(), std::move(name));  // most files have their keys in order
    if (object.size() > members || is_in_element()) return true;
    rejection = "stands twice in one object";
    pointer = place() + "/" + member_->first;
    return false;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    const std::string text = error.what();
    rejection = error.id == 406                                      ? "is a number out of range"
                : text.find("ill-formed UTF-8") != std::string::npos ? "is not UTF-8"
                                                                     : "is not JSON";
    byte = position;
    return false;
  }

 private:
  using Member = Json::Object::value_type;
  struct Open {
    Json* value;
    const Member* member;  // that it is, of the object before; none: it is no member
  };

  template <class Value>
  Json* add(Value&& value) {
    if (open_.empty()) return &(result = Json(std::forward<Value>(value)));
    if (auto* array = std::get_if<Json::Array>(&open_.back().value->value_))
      return &array->emplace_back(std::forward<Value>(value));
    return &(member_->second = Json(std::forward<Value>(value)));
  }
  bool is_left_out() const {
    return !left_out_.empty() && open_.size() == 1 && open_[0].value->is_object() && member_->first == left_out_;
  }
  template <class Value>
  bool put(Value&& value) {
    if (left_out_depth_ > 0) return true;
    if (is_left_out())
      add(Json::array());
    else
      add(std::forward<Value>(value));
    give_element();
    return true;
  }
  // An array whose elements are given away is open, and they stand in it.
  bool has_elements(std::size_t depth) const {
    if (!on_element_ || depth >= open_.size() || !open_[depth].value->is_array()) return false;
    return depth == 0 || (depth == 1 && open_[1].member && open_[1].member->first == given_);
  }
  bool is_in_element() const { return (has_elements(0) && open_.size() > 1) || (has_elements(1) && open_.size() > 2); }
  void give_element() {
    if (open_.empty() || !has_elements(open_.size() - 1)) return;
    (*on_element_)(given_elements_++, open_.back().value->back());
    open_.back().value->erase(0);
  }
  bool open(Json value) {
    if (left_out_depth_ > 0 || is_left_out()) {
      if (left_out_depth_++ == 0) add(Json::array());
      return left_out_depth_ < Json::kMaxNesting;
    }
    if (open_.size() == Json::kMaxNesting) {
      rejection = "is nested deeper than " + std::to_string(Json::kMaxNesting) + " levels";
      return false;
    }
    const bool is_member = !open_.empty() && open_.back().value->is_object();
    open_.push_back({add(std::move(value)), is_member ? member_ : nullptr});
    return true;
  }
  bool close() {
    if (left_out_depth_ > 0) {
      --left_out_depth_;
      return true;
    }
    open_.pop_back();
    give_element();
    return true;
  }
  std::string place() const {  // of the innermost open value
    std::string text;
    for (std::size_t i = 1; i < open_.size(); ++i)
      text += "/" + (open_[i].member ? open_[i].member->first : std::to_string(open_[i - 1].value->size() - 1));
    return text;
  }

  // The values that are not yet closed, from the outermost. Only the innermost grows, so that the pointers stay valid.
  std::vector<Open> open_;
  Member* member_ = nullptr;   // whose value comes next, of the innermost object
  std::string_view left_out_;  // of the outermost object
  int left_out_depth_ = 0;     // arrays and objects of it that are open
  std::string_view given_;
  const Json::OnElement* on_element_ = nullptr;
  std::size_t given_elements_ = 0;
};

namespace {

bool is_negative(const Json& integer) { return !integer.is_number_unsigned() && integer.get<std::int64_t>() < 0; }

template <class Number>
bool equal_numbers(const Json& a, const Json& b) {
  return a.get<Number>() == b.get<Number>();
}

}  // namespace

Json::Json() : value_(nullptr) {}
Json::Json(std::nullptr_t) : value_(nullptr) {}
Json::Json(const Json& other) = default;
// clang-tidy sees std::variant's exceptions of an index that is wrong in these two; there is none.
// NOLINTBEGIN(bugprone-exception-escape)
Json::Json(Json&& other) noexcept : value_(std::move(other.value_)) { other.value_ = nullptr; }
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept {
  // By way of a third: `other` may be a part of this value.
  auto value = std::move(other.value_);
  other.value_ = nullptr;
  value_ = std::move(value);
  return *this;
}
// NOLINTEND(bugprone-exception-escape)
Json::~Json() = default;
Json::Json(Boolean value) : value_(value.value) {}
Json::Json(Signed value) : value_(value.value) {}
Json::Json(Unsigned value) : value_(value.value) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}

Json::Json(std::initializer_list<Json> values) {
  const bool members = std::all_of(values.begin(), values.end(), [](const Json& value) {
    return value.is_array() && value.size() == 2 && value.front().is_string();
  });
  if (!members) {
    value_ = Array(values);
    return;
  }
  Object& object = value_.emplace<Object>();
  for (const Json& member : values) object.emplace(member.front().get<std::string>(), member.back());
}

Json Json::array(std::initializer_list<Json> values) {
  Json result;
  result.value_ = Array(values);
  return result;
}

Json Json::object() {
  Json result;
  result.value_ = Object();
  return result;
}

static Json built(std::string_view text, const std::string& where, JsonBuilder&& builder) {
  if (json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.result);
  if (builder.byte == 0)
    throw InputError(where + (builder.pointer.empty() ? "" : ": " + builder.pointer), builder.rejection);
  // The byte counts from 1 and is the last one read.
  const std::string_view before = text.substr(0, builder.byte - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t last_end = before.rfind('\n');
  const auto column = last_end == std::string_view::npos ? before.size() + 1 : before.size() - last_end;
  throw InputError(where + ":" + std::to_string(line) + ":" + std::to_string(column), builder.rejection,
                   "look at or before this place");
}

Json Json::parse(std::string_view text, const std::string& where) { return built(text, where, JsonBuilder()); }

Json Json::parse_elements(std::string_view text, const std::string& where, std::string_view member,
                          const OnElement& on_element) {
  return built(text, where, JsonBuilder(member, on_element));
}

std::optional<Json> Json::parse_if_json(std::string_view text, std::string_view left_out) {
  JsonBuilder builder(left_out);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return std::move(builder.result);
}

// Characters that a terminal obeys are escaped: documents are printed, too.
std::string Json::dump(int indent) const {
  return visible_json(to_library(*this).dump(indent, ' ', false, json::error_handler_t::replace));
}

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_boolean() const { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const { return is_number_integer() || std::holds_alternative<double>(value_); }
bool Json::is_number_integer() const { return std::holds_alternative<std::int64_t>(value_) || is_number_unsigned(); }
bool Json::is_number_unsigned() const { return std::holds_alternative<std::uint64_t>(value_); }
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<Array>(value_); }
bool Json::is_object() const { return std::holds_alternative<Object>(value_); }

const char* Json::type_name() const {
  if (is_null()) return "null";
  if (is_boolean()) return "boolean";
  if (is_number()) return "number";
  if (is_string()) return "string";
  return is_array() ? "array" : "object";
}

std::size_t Json::size() const {
  if (is_null()) return 0;
  if (const auto* array = std::get_if<Array>(&value_)) return array->size();
  if (const auto* object = std::get_if<Object>(&value_)) return object->size();
  return 1;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  auto* object = std::get_if<Object>(&value_);
  if (!object) not_of_type(*this, "an object with '" + std::string(key) + "'");
  const auto found = object->find(key);
  return found != object->end() ? found->second : object->emplace(std::string(key), Json()).first->second;
}

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&value_);
  if (!object) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  if (!found) not_of_type(*this, "an object with '" + std::string(key) + "'");
  return *found;
}

Json& Json::at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }

const Json::Object& Json::items() const {
  static const Object none;
  if (is_null()) return none;
  const auto* object = std::get_if<Object>(&value_);
  if (!object) not_of_type(*this, "an object");
  return *object;
}

void Json::erase(std::string_view key) {
  auto* object = std::get_if<Object>(&value_);
  if (!object) not_of_type(*this, "an object");
  if (const auto found = object->find(key); found != object->end()) object->erase(found);
}

void Json::update(const Json& more) {
  for (const auto& [key, value] : more.items()) (*this)[key] = value;
}

void Json::erase_element(std::size_t index) {
  const Json& erased = std::as_const(*this).element(index);
  auto& array = std::get<Array>(value_);
  array.erase(array.begin() + (&erased - array.data()));
}

Json& Json::element(std::size_t index) {
  if (is_null()) value_ = Array();
  auto* array = std::get_if<Array>(&value_);
  if (!array) not_of_type(*this, "an array");
  if (index >= array->size()) array->resize(index + 1);
  return (*array)[index];
}

const Json& Json::element(std::size_t index) const {
  const auto* array = std::get_if<Array>(&value_);
  if (!array || index >= array->size()) not_of_type(*this, "an array of more than " + std::to_string(index));
  return (*array)[index];
}

const Json& Json::back() const { return element(size() - 1); }

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  auto* array = std::get_if<Array>(&value_);
  if (!array) not_of_type(*this, "an array");
  array->push_back(std::move(value));
}

Json::Array::const_iterator Json::begin() const {
  static const Array none;
  if (is_null()) return none.begin();
  const auto* array = std::get_if<Array>(&value_);
  if (!array) not_of_type(*this, "an array");
  return array->begin();
}

Json::Array::const_iterator Json::end() const {
  return begin() + static_cast<Array::difference_type>(is_null() ? 0 : size());
}

Json::Array::iterator Json::begin() {
  if (is_null()) value_ = Array();
  auto* array = std::get_if<Array>(&value_);
  if (!array) not_of_type(*this, "an array");
  return array->begin();
}

Json::Array::iterator Json::end() { return begin() + static_cast<Array::difference_type>(size()); }

void Json::read(bool& value) const {
  const bool* held = std::get_if<bool>(&value_);
  if (!held) not_of_type(*this, "true or false");
  value = *held;
}

void Json::read(double& value) const {
  if (const double* real = std::get_if<double>(&value_))
    value = *real;
  else if (const std::int64_t* integer = std::get_if<std::int64_t>(&value_))
    value = static_cast<double>(*integer);
  else if (const std::uint64_t* whole = std::get_if<std::uint64_t>(&value_))
    value = static_cast<double>(*whole);
  else
    not_of_type(*this, "a number");
}

void Json::read(std::string& value) const {
  const auto* text = std::get_if<std::string>(&value_);
  if (!text) not_of_type(*this, "a text");
  value = *text;
}

std::int64_t Json::read_signed(std::int64_t least, std::int64_t most) const {
  std::optional<std::int64_t> value;
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value_)) value = *integer;
  if (const std::uint64_t* whole = std::get_if<std::uint64_t>(&value_); whole && std::in_range<std::int64_t>(*whole))
    value = static_cast<std::int64_t>(*whole);
  if (!value || *value < least || *value > most)
    not_of_type(*this, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

std::uint64_t Json::read_unsigned(std::uint64_t most) const {
  std::optional<std::uint64_t> value;
  if (const std::uint64_t* whole = std::get_if<std::uint64_t>(&value_)) value = *whole;
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value_); integer && *integer >= 0)
    value = static_cast<std::uint64_t>(*integer);
  if (!value || *value > most) not_of_type(*this, "a whole number from 0 to " + std::to_string(most));
  return *value;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is_number_integer() || !b.is_number_integer()) return equal_numbers<double>(a, b);
    if (is_negative(a) || is_negative(b)) return is_negative(a) && is_negative(b) && equal_numbers<std::int64_t>(a, b);
    return equal_numbers<std::uint64_t>(a, b);
  }
  return a.value_ == b.value_;
}

bool operator<(const Json& a, const Json& b) {
  const auto rank = [](const Json& value) {
    if (value.is_null()) return 0;
    if (value.is_boolean()) return 1;
    if (value.is_number()) return 2;
    if (value.is_object()) return 3;
    return value.is_array() ? 4 : 5;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (a.is_null()) return false;
  if (a.is_boolean()) return std::get<bool>(a.value_) < std::get<bool>(b.value_);
  if (a.is_string()) return std::get<std::string>(a.value_) < std::get<std::string>(b.value_);
  if (a.is_array()) return std::get<Json::Array>(a.value_) < std::get<Json::Array>(b.value_);
  if (a.is_object()) return std::get<Json::Object>(a.value_) < std::get<Json::Object>(b.value_);
  if (!a.is_number_integer() || !b.is_number_integer()) return a.get<double>() < b.get<double>();
  if (is_negative(a) || is_negative(b))
    return is_negative(a) && (!is_negative(b) || a.get<std::int64_t>() < b.get<std::int64_t>());
  return a.get<std::uint64_t>() < b.get<std::uint64_t>();
}

std::ostream& operator<<(std::ostream& out, const Json& value) { return out << value.dump(); }

}  // namespace sluice
