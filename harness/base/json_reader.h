// JsonReader: reads a JSON document that a person wrote. Every value is asked for by name and type; what is missing, of
// the wrong type, out of range or left over becomes one InputError with file and JSON pointer ("cluster.json:
// /devices/0/count: must be at least 1").
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sluice {

nlohmann::json parse_json_file(const std::string& path);  // throws InputError: unreadable, or line and column

class JsonReader {
 public:
  JsonReader(const nlohmann::json& json, std::string file, std::string pointer = "");

  bool has(const std::string& key);
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  double number(const std::string& key);
  double number(const std::string& key, double otherwise);
  std::int64_t integer(const std::string& key, std::int64_t least);
  std::int64_t integer(const std::string& key, std::int64_t otherwise, std::int64_t least);
  bool boolean(const std::string& key, bool otherwise);
  JsonReader object(const std::string& key);
  std::vector<JsonReader> objects(const std::string& key);  // an array of objects; absent: empty
  const nlohmann::json& raw(const std::string& key);
  void no_other_keys() const;  // throws for the first key nobody asked for

  std::string where(const std::string& key) const;  // "file: /pointer/key"
  const nlohmann::json& json() const { return *json_; }
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& advice = "") const;

 private:
  const nlohmann::json* find(const std::string& key);
  const nlohmann::json* json_;
  std::string file_, pointer_;
  std::set<std::string> asked_;
};

}  // namespace sluice
