// Values as bytes, for messages between the processes of one job. All machines run the same program, so the layout is
// the same; these bytes are never stored.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice {

class ByteWriter {
 public:
  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  template <class T>
  void list(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    value(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void text(const std::string& s) {
    value(static_cast<std::uint64_t>(s.size()));
    bytes_ += s;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Throws std::runtime_error if the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(const std::string& bytes) : bytes_(bytes) {}  // which must outlive it

  template <class T>
  void value(T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&v, take(sizeof v), sizeof v);
  }
  template <class T>
  T value() {
    T v{};
    value(v);
    return v;
  }
  template <class T>
  void list(std::vector<T>& values) {
    values.resize(size(sizeof(T)));
    if (!values.empty())
      std::memcpy(static_cast<void*>(values.data()), take(values.size() * sizeof(T)), values.size() * sizeof(T));
  }
  std::string text() {
    const std::size_t n = size(1);
    return {take(n), n};
  }

 private:
  std::size_t size(std::size_t each) {
    const auto n = value<std::uint64_t>();
    if (n > (bytes_.size() - at_) / each) throw std::runtime_error("a message is cut short");
    return n;
  }
  const char* take(std::size_t n) {
    if (n > bytes_.size() - at_) throw std::runtime_error("a message is cut short");
    at_ += n;
    return bytes_.data() + at_ - n;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace sluice
