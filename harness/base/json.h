// Json: a JSON document in memory. It is built and read like a map, a vector or a number, and written with keys sorted
// and every double in as few digits as read back to the same. Its members stand in json.cpp, the one file that
// includes nlohmann/json, which parses and writes: a file that uses this header compiles in a second. What a person
// wrote is read with JsonReader (json_reader.h), which says where a mistake is.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

// A value that is not of the type that the program asks for, or has no such key: of a document that this program made,
// a defect.
class JsonError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  // What stands deeper in arrays and objects is rejected by every way of reading.
  static constexpr int kMaxNesting = 256;

  Json();  // null
  Json(std::nullptr_t);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  template <std::same_as<bool> B>
  Json(B value) : Json(Boolean{value}) {}
  template <std::signed_integral I>
  Json(I value) : Json(Signed{value}) {}
  template <std::unsigned_integral I>
  requires(!std::same_as<I, bool>) Json(I value) : Json(Unsigned{value}) {}
  Json(double value);
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text);
  // {{"key", value}, ...}, pairs whose first value is a text, is an object; any other list is an array.
  Json(std::initializer_list<Json> values);
  template <class T>
  Json(const std::vector<T>& values) : Json(array()) {
    for (const auto& value : values) push_back(static_cast<const T&>(value));
  }
  template <class T>
  Json(const std::set<T>& values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  template <class T>
  Json(const std::map<std::string, T>& members) : Json(object()) {
    for (const auto& [key, value] : members) (*this)[key] = value;
  }
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}  // none: null

  static Json array(std::initializer_list<Json> values = {});
  static Json object();

  // `where` is the file, for errors. Throws InputError that names line and column, or the JSON pointer: not JSON, not
  // UTF-8, a key twice in one object, a number out of a double's range, nested deeper than kMaxNesting.
  static Json parse(std::string_view text, const std::string& where = "the text");
  // None where parse() throws. The member `left_out` of the document's object is not built: it is an empty array.
  static std::optional<Json> parse_if_json(std::string_view text, std::string_view left_out = {});
  using OnElement = std::function<void(std::size_t index, const Json& element)>;
  // As parse(), for documents that are too large to hold: the elements of the outermost array, or of the array `member`
  // of the outermost object, are given to on_element one by one and are not part of the result. Of a key that stands
  // twice in an element the last value counts, because profilers write such keys.
  static Json parse_elements(std::string_view text, const std::string& where, std::string_view member,
                             const OnElement& on_element);

  // In one line, or with line breaks and an indentation of `indent` spaces a level. Bytes that are not UTF-8 are
  // replaced.
  std::string dump(int indent = -1) const;
  std::string text() const { return is_string() ? get<std::string>() : dump(); }  // a text as it is

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_number_integer() const;   // written without point and exponent
  bool is_number_unsigned() const;  // the same, and held without a sign
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  const char* type_name() const;  // as JSON calls it: "null", "boolean", "number", "string", "array", "object"

  // Of an array or an object; of null 0, of anything else 1.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // Members. Those that are not const make an object of null and the member where it is missing; const ones throw
  // JsonError.
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  const Json& operator[](std::string_view key) const { return at(key); }
  const Json& operator[](const char* key) const { return at(std::string_view(key)); }
  Json& at(std::string_view key);
  const Json& at(std::string_view key) const;
  const Json* find(std::string_view key) const;  // null: it is no object or has no such member
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  template <class T>
  T value(std::string_view key, T otherwise) const {  // `otherwise` where it has no such member
    const Json* found = find(key);
    return found ? found->get<T>() : std::move(otherwise);
  }
  std::string value(std::string_view key, const char* otherwise) const { return value(key, std::string(otherwise)); }
  const Object& items() const;  // by key; of null none
  void erase(std::string_view key);
  template <std::integral I>
  void erase(I index) {
    erase_element(static_cast<std::size_t>(index));
  }
  void update(const Json& more);  // every member of `more` replaces the one of the same key

  // Elements.
  template <std::integral I>
  Json& operator[](I index) {
    return element(static_cast<std::size_t>(index));
  }
  template <std::integral I>
  const Json& operator[](I index) const {
    return element(static_cast<std::size_t>(index));
  }
  template <std::integral I>
  const Json& at(I index) const {
    return element(static_cast<std::size_t>(index));
  }
  void push_back(Json value);  // makes an array of null
  const Json& front() const { return element(0); }
  const Json& back() const;
  Json& back() { return const_cast<Json&>(static_cast<const Json*>(this)->back()); }
  Array::const_iterator begin() const;  // of null none
  Array::const_iterator end() const;
  Array::iterator begin();
  Array::iterator end();

  // The value itself: bool, an integer that it fits, double (of any number), std::string, or a vector, set or map of
  // them. Throws JsonError.
  template <class T>
  T get() const {
    T value;
    read(value);
    return value;
  }

  friend bool operator==(const Json& a, const Json& b);  // numbers by their value, whatever they were written as
  // A total order: null, false, true, numbers, objects, arrays, texts.
  friend bool operator<(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& value);

 private:
  friend class JsonBuilder;  // json.cpp: what the parser calls

  struct Boolean {
    bool value;
  };
  struct Signed {
    std::int64_t value;
  };
  struct Unsigned {
    std::uint64_t value;
  };
  explicit Json(Boolean value);
  explicit Json(Signed value);
  explicit Json(Unsigned value);

  void erase_element(std::size_t index);
  Json& element(std::size_t index);  // grows the array
  const Json& element(std::size_t index) const;
  void read(Json& value) const { value = *this; }
  void read(bool& value) const;
  void read(double& value) const;
  void read(std::string& value) const;
  std::int64_t read_signed(std::int64_t least, std::int64_t most) const;
  std::uint64_t read_unsigned(std::uint64_t most) const;
  template <std::integral I>
  void read(I& value) const {
    if constexpr (std::signed_integral<I>)
      value = static_cast<I>(read_signed(std::numeric_limits<I>::min(), std::numeric_limits<I>::max()));
    else
      value = static_cast<I>(read_unsigned(std::numeric_limits<I>::max()));
  }
  template <class T>
  void read(std::vector<T>& values) const {
    for (const Json& value : *this) values.push_back(value.get<T>());
  }
  template <class T>
  void read(std::set<T>& values) const {
    for (const Json& value : *this) values.insert(value.get<T>());
  }
  template <class T>
  void read(std::map<std::string, T>& members) const {
    for (const auto& [key, value] : items()) members[key] = value.template get<T>();
  }

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace sluice
