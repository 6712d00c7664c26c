// JsonReader: reads a JSON document that this program did not make. Every value is asked for by name, type and bounds;
// what is missing, of the wrong type, out of bounds or left over becomes one InputError with file and JSON pointer
// ("cluster.json: /devices/0/count: is 0; must be at least 1").
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/choice.h"
#include "harness/base/numbers.h"

namespace sluice {

class Json;

// Throws InputError as Json::parse (json.h), for what is no regular file or cannot be read, and for more than 512 MiB
// of text or 32 MiB of JSON (a sweep of 10^5 cases, costs of 10^5 layers).
std::string read_text_file(const std::string& path);
Json parse_json_file(const std::string& path);

// Names the place of the value at a JSON pointer, for errors: "quick.json: /grid/0/ranks", or "--ranks" of the command
// line.
using PlaceOf = std::function<std::string(const std::string& pointer)>;
// The pointers are below `pointer` in the file.
PlaceOf in_file(const std::string& file, const std::string& pointer = "");

class JsonReader {
 public:
  // The document has to outlive the reader. advice: what to do about every mistake that has no advice of its own.
  JsonReader(const Json& json, PlaceOf place, std::string pointer = "", std::string advice = "");
  JsonReader(const Json& json, std::string file, std::string pointer = "", std::string advice = "");

  bool has(const std::string& key);
  bool is_null(const std::string& key);  // throws where it is missing
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  std::string one_of(const std::string& key, const std::vector<std::string>& known);  // the text, one of these
  // The closed choice that the text names, one that a person may give.
  template <ClosedChoice E>
  E choice(const std::string& key) {
    return *choice_named<E>(one_of(key, choice_names<E>()));
  }
  template <ClosedChoice E>
  E choice_or(const std::string& key, E otherwise) {
    return has(key) ? choice<E>(key) : otherwise;
  }
  bool boolean(const std::string& key);
  bool boolean(const std::string& key, bool otherwise);
  double number(const std::string& key, double least, double most);
  double number_or(const std::string& key, double otherwise, double least, double most);
  double above_zero(const std::string& key, double most);
  double above_zero_or(const std::string& key, double otherwise, double most);
  // A measured number, which may have run out of range: also "NaN", "Infinity" and "-Infinity".
  double any_number(const std::string& key);
  template <std::integral Int>
  Int integer(const std::string& key, Int least, std::type_identity_t<Int> most) {
    if constexpr (std::unsigned_integral<Int>)
      return static_cast<Int>(whole_unsigned(key, least, most));
    else
      return static_cast<Int>(whole(key, least, most));
  }
  template <std::integral Int>
  Int integer_or(const std::string& key, Int otherwise, std::type_identity_t<Int> least,
                 std::type_identity_t<Int> most) {
    return has(key) ? integer<Int>(key, least, most) : otherwise;
  }

  // An object's members, or a list's elements, whose keys are "0", "1", ...
  JsonReader object(const std::string& key);
  JsonReader list(const std::string& key);
  std::vector<JsonReader> objects(const std::string& key);  // of a list of objects; absent: empty
  std::vector<std::string> texts(const std::string& key);   // of a list of texts; absent: empty
  std::vector<double> numbers(const std::string& key, double least, double most);
  template <std::integral Int>
  std::vector<Int> integers(const std::string& key, Int least, std::type_identity_t<Int> most) {
    std::vector<Int> result;
    JsonReader elements = list(key);
    for (const std::string& index : elements.keys()) result.push_back(elements.integer<Int>(index, least, most));
    return result;
  }
  std::vector<std::string> keys() const;
  int size() const;

  const Json& raw(const std::string& key);
  const Json& json() const { return *json_; }
  // Throws for the first key that nobody has asked for.
  void no_other_keys(const std::string& advice = "") const;

  std::string where(const std::string& key) const;  // the place of "/pointer/key"
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& advice = "") const;

 private:
  // What a document's readers share.
  struct Document {
    PlaceOf place;
    std::string advice;
  };
  JsonReader(const Json& json, std::shared_ptr<const Document> document, std::string pointer);
  const Json* find(const std::string& key);
  std::int64_t whole(const std::string& key, std::int64_t least, std::int64_t most);
  std::uint64_t whole_unsigned(const std::string& key, std::uint64_t least, std::uint64_t most);
  double bounded(const std::string& key, double value, double least, double most) const;
  // Rejects it in the words "must be a text, is number".
  [[noreturn]] void wrong_type(const std::string& key, const std::string& expected, const Json& value) const;

  const Json* json_;
  std::shared_ptr<const Document> document_;
  std::string pointer_;
  std::vector<const Json*> asked_;   // of an object: its members asked for, some more than once
  std::vector<std::string> absent_;  // and what was asked for and is no member
};

}  // namespace sluice
