// For tests of the readers: a temporary folder, and files in the formats that they read.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sluice {

using FileBytes = std::vector<std::uint8_t>;

class DataFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-data-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string put(const std::string& name, const FileBytes& bytes) const {
    std::ofstream(at(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return at(name);
  }

  std::string put_text(const std::string& name, const std::string& text) const {
    return put(name, FileBytes(text.begin(), text.end()));
  }

  std::string put_gz(const std::string& name, const FileBytes& bytes) const {
    const gzFile file = gzopen(at(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return at(name);
  }

  FileBytes content(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

// `magic` and `sizes` big-endian, then `data`.
inline FileBytes idx_bytes(std::uint32_t magic, const std::vector<std::uint32_t>& sizes, const FileBytes& data) {
  FileBytes bytes;
  const auto number = [&](std::uint32_t n) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
  };
  number(magic);
  for (const std::uint32_t size : sizes) number(size);
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

// A gettext catalogue of (original, translation) pairs, laid out as msgfmt does.
inline FileBytes mo_bytes(const std::vector<std::pair<std::string, std::string>>& entries, bool big_endian = false) {
  const auto count = static_cast<std::uint32_t>(entries.size());
  FileBytes bytes;
  std::string texts;
  const auto number = [&](std::uint32_t n) {
    for (int k = 0; k < 4; ++k) bytes.push_back(static_cast<std::uint8_t>(n >> (big_endian ? 24 - 8 * k : 8 * k)));
  };
  for (const std::uint32_t n : {0x950412deu, 0u, count, 28u, 28 + 8 * count, 0u, 0u}) number(n);
  const std::uint32_t begin = 28 + 16 * count;
  for (const bool translated : {false, true})
    for (const auto& [original, translation] : entries) {
      const std::string& text = translated ? translation : original;
      number(static_cast<std::uint32_t>(text.size()));
      number(begin + static_cast<std::uint32_t>(texts.size()));
      texts += text + '\0';
    }
  bytes.insert(bytes.end(), texts.begin(), texts.end());
  return bytes;
}

}  // namespace sluice
