#include "harness/base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/base/error.h"

namespace sluice {

nlohmann::json parse_json_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw InputError(path, "is a folder", "give a file");
  std::ifstream in(path);
  if (!in) throw InputError(path, "cannot be read", "check the name and its permissions");
  std::stringstream text;
  text << in.rdbuf();
  if (in.bad()) throw InputError(path, "cannot be read to its end");
  try {
    return nlohmann::json::parse(text.str());
  } catch (const nlohmann::json::parse_error& e) {
    // e.byte counts from 1 and points at the last character read.
    const std::string before = text.str().substr(0, e.byte > 0 ? e.byte - 1 : 0);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    throw InputError(path + ":" + std::to_string(line) + ":" + std::to_string(column), "is not JSON",
                     "look at or before this place");
  }
}

JsonReader::JsonReader(const nlohmann::json& json, std::string file, std::string pointer)
    : json_(&json), file_(std::move(file)), pointer_(std::move(pointer)) {
  if (!json_->is_object())
    throw InputError(file_ + ": " + (pointer_.empty() ? "/" : pointer_),
                     std::string("must be an object, is ") + json_->type_name());
}

std::string JsonReader::where(const std::string& key) const { return file_ + ": " + pointer_ + "/" + key; }

void JsonReader::fail(const std::string& key, const std::string& what, const std::string& advice) const {
  throw InputError(where(key), what, advice);
}

const nlohmann::json* JsonReader::find(const std::string& key) {
  asked_.insert(key);
  const auto found = json_->find(key);
  return found == json_->end() ? nullptr : &*found;
}

bool JsonReader::has(const std::string& key) { return find(key) != nullptr; }

const nlohmann::json& JsonReader::raw(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (!value) fail(key, "is missing");
  return *value;
}

std::string JsonReader::text(const std::string& key) {
  const nlohmann::json& value = raw(key);
  if (!value.is_string()) fail(key, std::string("must be a text, is ") + value.type_name());
  return value.get<std::string>();
}

std::string JsonReader::text(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

double JsonReader::number(const std::string& key) {
  const nlohmann::json& value = raw(key);
  if (!value.is_number()) fail(key, std::string("must be a number, is ") + value.type_name());
  const double number = value.get<double>();
  if (!std::isfinite(number)) fail(key, "must be finite");
  return number;
}

double JsonReader::number(const std::string& key, double otherwise) { return has(key) ? number(key) : otherwise; }

std::int64_t JsonReader::integer(const std::string& key, std::int64_t least) {
  const nlohmann::json& value = raw(key);
  if (!value.is_number_integer()) fail(key, std::string("must be an integer, is ") + value.type_name());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > 4'000'000'000'000'000'000u) fail(key, "is too large");
  const auto number = value.get<std::int64_t>();
  if (number < least) fail(key, "is " + std::to_string(number), "must be at least " + std::to_string(least));
  return number;
}

std::int64_t JsonReader::integer(const std::string& key, std::int64_t otherwise, std::int64_t least) {
  return has(key) ? integer(key, least) : otherwise;
}

bool JsonReader::boolean(const std::string& key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) fail(key, std::string("must be true or false, is ") + value->type_name());
  return value->get<bool>();
}

JsonReader JsonReader::object(const std::string& key) { return JsonReader(raw(key), file_, pointer_ + "/" + key); }

std::vector<JsonReader> JsonReader::objects(const std::string& key) {
  std::vector<JsonReader> result;
  const nlohmann::json* value = find(key);
  if (!value) return result;
  if (!value->is_array()) fail(key, std::string("must be an array, is ") + value->type_name());
  for (std::size_t i = 0; i < value->size(); ++i)
    result.emplace_back((*value)[i], file_, pointer_ + "/" + key + "/" + std::to_string(i));
  return result;
}

void JsonReader::no_other_keys() const {
  for (const auto& item : json_->items()) {
    if (asked_.contains(item.key())) continue;
    const std::vector<std::string> known(asked_.begin(), asked_.end());
    fail(item.key(), "unknown key '" + item.key() + "'", suggestion(item.key(), known));
  }
}

}  // namespace sluice
