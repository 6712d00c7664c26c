#include "harness/base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/base/read_text.h"

namespace sluice {

namespace {

std::string read_at_most(const std::string& path, std::size_t most) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) throw InputError(path, "is a folder", "give a file");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw InputError(path, "is no regular file", "write what it holds into a file and give that");
  return read_text(path, most, "check its name and folder");
}

}  // namespace

std::string read_text_file(const std::string& path) { return read_at_most(path, std::size_t{512} << 20); }

Json parse_json_file(const std::string& path) { return Json::parse(read_at_most(path, std::size_t{32} << 20), path); }

static std::string in_words(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

PlaceOf in_file(const std::string& file, const std::string& pointer) {
  return [file, pointer](const std::string& below) {
    const std::string whole = pointer + below;
    return file + ": " + (whole.empty() ? "/" : whole);
  };
}

JsonReader::JsonReader(const Json& json, std::string file, std::string pointer, std::string advice)
    : JsonReader(json, in_file(file), std::move(pointer), std::move(advice)) {}

JsonReader::JsonReader(const Json& json, PlaceOf place, std::string pointer, std::string advice)
    : JsonReader(json, std::make_shared<const Document>(Document{std::move(place), std::move(advice)}),
                 std::move(pointer)) {}

JsonReader::JsonReader(const Json& json, std::shared_ptr<const Document> document, std::string pointer)
    : json_(&json), document_(std::move(document)), pointer_(std::move(pointer)) {
  if (json_->is_object() || (json_->is_array() && !pointer_.empty())) return;
  throw InputError(document_->place(pointer_), std::string("must be an object, is ") + json_->type_name(),
                   document_->advice);
}

std::string JsonReader::where(const std::string& key) const { return document_->place(pointer_ + "/" + key); }

void JsonReader::fail(const std::string& key, const std::string& what, const std::string& advice) const {
  throw InputError(where(key), what, advice.empty() ? document_->advice : advice);
}

void JsonReader::wrong_type(const std::string& key, const std::string& expected, const Json& value) const {
  fail(key, "must be " + expected + ", is " + value.type_name());
}

const Json* JsonReader::find(const std::string& key) {
  if (json_->is_object()) {
    const Json* member = json_->find(key);
    if (!member)
      absent_.push_back(key);
    else if (asked_.empty() || asked_.back() != member)
      asked_.push_back(member);
    return member;
  }
  const auto index = number_as<std::size_t>(key);
  return index && *index < json_->size() ? &json_->at(*index) : nullptr;
}

bool JsonReader::has(const std::string& key) { return find(key) != nullptr; }

const Json& JsonReader::raw(const std::string& key) {
  const Json* value = find(key);
  if (!value) fail(key, "is missing");
  return *value;
}

bool JsonReader::is_null(const std::string& key) { return raw(key).is_null(); }

std::string JsonReader::text(const std::string& key) {
  const Json& value = raw(key);
  if (!value.is_string()) wrong_type(key, "a text", value);
  return value.get<std::string>();
}

std::string JsonReader::text(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

std::string JsonReader::one_of(const std::string& key, const std::vector<std::string>& known) {
  const std::string name = text(key);
  if (std::ranges::count(known, name) == 0) fail(key, "unknown value '" + name + "'", suggestion(name, known));
  return name;
}

bool JsonReader::boolean(const std::string& key) {
  const Json& value = raw(key);
  if (!value.is_boolean()) wrong_type(key, "true or false", value);
  return value.get<bool>();
}

bool JsonReader::boolean(const std::string& key, bool otherwise) { return has(key) ? boolean(key) : otherwise; }

double JsonReader::bounded(const std::string& key, double value, double least, double most) const {
  if (value < 0 && least == 0) fail(key, "must not be negative");
  if (value < least) fail(key, "is " + in_words(value), "must be at least " + in_words(least));
  if (value > most) fail(key, in_words(value) + " is too large", "must be at most " + in_words(most));
  return value;
}

double JsonReader::number(const std::string& key, double least, double most) {
  const Json& value = raw(key);
  if (!value.is_number()) wrong_type(key, "a number", value);
  const double number = value.get<double>();
  if (!std::isfinite(number)) fail(key, "must be finite");
  return bounded(key, number, least, most);
}

double JsonReader::number_or(const std::string& key, double otherwise, double least, double most) {
  return has(key) ? number(key, least, most) : otherwise;
}

double JsonReader::above_zero(const std::string& key, double most) {
  const double value = number(key, -std::numeric_limits<double>::max(), most);
  if (!(value > 0)) fail(key, "must be greater than 0");
  return value;
}

double JsonReader::above_zero_or(const std::string& key, double otherwise, double most) {
  return has(key) ? above_zero(key, most) : otherwise;
}

double JsonReader::any_number(const std::string& key) {
  const Json& value = raw(key);
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  wrong_type(key, "a number", value);
}

std::int64_t JsonReader::whole(const std::string& key, std::int64_t least, std::int64_t most) {
  const Json& value = raw(key);
  if (!value.is_number_integer()) wrong_type(key, "an integer", value);
  const bool unsigned_above = value.is_number_unsigned() && std::cmp_greater(value.get<std::uint64_t>(), most);
  if (unsigned_above || (!value.is_number_unsigned() && value.get<std::int64_t>() > most))
    fail(key, value.dump() + " is too large", "must be at most " + std::to_string(most));
  const auto number = value.get<std::int64_t>();
  if (number < least) fail(key, "is " + value.dump(), "must be at least " + std::to_string(least));
  return number;
}

std::uint64_t JsonReader::whole_unsigned(const std::string& key, std::uint64_t least, std::uint64_t most) {
  const Json& value = raw(key);
  if (!value.is_number_integer()) wrong_type(key, "an integer", value);
  if (value < Json(least)) fail(key, "is " + value.dump(), "must be at least " + std::to_string(least));
  if (Json(most) < value) fail(key, value.dump() + " is too large", "must be at most " + std::to_string(most));
  return value.get<std::uint64_t>();
}

JsonReader JsonReader::object(const std::string& key) {
  const Json& value = raw(key);
  if (!value.is_object()) wrong_type(key, "an object", value);
  return JsonReader(value, document_, pointer_ + "/" + key);
}

JsonReader JsonReader::list(const std::string& key) {
  const Json& value = raw(key);
  if (!value.is_array()) wrong_type(key, "an array", value);
  return JsonReader(value, document_, pointer_ + "/" + key);
}

std::vector<JsonReader> JsonReader::objects(const std::string& key) {
  std::vector<JsonReader> result;
  if (!has(key)) return result;
  JsonReader elements = list(key);
  for (const std::string& index : elements.keys()) result.push_back(elements.object(index));
  return result;
}

std::vector<std::string> JsonReader::texts(const std::string& key) {
  std::vector<std::string> result;
  if (!has(key)) return result;
  JsonReader elements = list(key);
  for (const std::string& index : elements.keys()) result.push_back(elements.text(index));
  return result;
}

std::vector<double> JsonReader::numbers(const std::string& key, double least, double most) {
  std::vector<double> result;
  JsonReader elements = list(key);
  for (const std::string& index : elements.keys()) result.push_back(elements.number(index, least, most));
  return result;
}

std::vector<std::string> JsonReader::keys() const {
  std::vector<std::string> result;
  if (json_->is_object())
    for (const auto& [key, value] : json_->items()) result.push_back(key);
  else
    for (std::size_t i = 0; i < json_->size(); ++i) result.push_back(std::to_string(i));
  return result;
}

int JsonReader::size() const { return static_cast<int>(json_->size()); }

void JsonReader::no_other_keys(const std::string& advice) const {
  if (!json_->is_object()) return;
  std::vector<const Json*> asked = asked_;
  std::ranges::sort(asked);
  const auto known = [&](const Json& member) { return std::ranges::binary_search(asked, &member); };
  for (const auto& [key, member] : json_->items()) {
    if (known(member)) continue;
    std::set<std::string> names(absent_.begin(), absent_.end());
    for (const auto& [name, other] : json_->items())
      if (known(other)) names.insert(name);
    fail(key, "unknown key '" + key + "'",
         advice.empty() ? suggestion(key, std::vector<std::string>(names.begin(), names.end())) : advice);
  }
}

}  // namespace sluice
