#include "harness/tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "harness/base/read_text.h"

namespace sluice {

namespace {

constexpr std::size_t kLongest = 1 << 16;

class Mutation {
 public:
  Mutation(const std::vector<std::string>& corpus, std::mt19937_64& random)
      : corpus_(corpus), random_(random), text_(corpus[random() % corpus.size()]) {}

  std::string run() {
    for (std::size_t k = below(8) + 1; k > 0; --k) change();
    if (text_.size() > kLongest) text_.resize(kLongest);
    return std::move(text_);
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }

  void change() {
    static constexpr std::array<const char*, 24> numbers = {"0",
                                                            "-1",
                                                            "1e999",
                                                            "-1e999",
                                                            "1e308",
                                                            "NaN",
                                                            "4294967296",
                                                            "4294967297",
                                                            "2147483648",
                                                            "2147483647",
                                                            "-2147483649",
                                                            "9223372036854775807",
                                                            "9223372036854775808",
                                                            "18446744073709551616",
                                                            "2305843009213693952",
                                                            "1e-320",
                                                            "0.1",
                                                            "1e9",
                                                            "1000000001",
                                                            "null",
                                                            "true",
                                                            "\"\"",
                                                            "[]",
                                                            "{}"};
    static constexpr std::array<const char*, 12> words = {"[[[[[[[[[[", "{\"a\":", "]",        "}",        ",",  ":",
                                                          "\"",         "\\u0000", "\xff\xfe", "\x1b[31m", "\n", "\t"};
    const std::size_t at = below(text_.size() + 1);
    switch (below(10)) {
      case 0:
        if (at < text_.size()) text_[at] = static_cast<char>(text_[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text_.size()) text_[at] = static_cast<char>(random_());
        break;
      case 2:
        text_.erase(at, below(16) + 1);
        break;
      case 3:
        text_.insert(at, text_.substr(below(text_.size() + 1), below(64)));
        break;
      case 4:
        text_.insert(at, pick(words));
        break;
      case 5:
      case 6:
        replace_number(pick(numbers));
        break;
      case 7:
        text_.resize(at);
        break;
      case 8: {
        const std::string& other = pick(corpus_);
        text_ = text_.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      default: {  // four bytes, as binary formats have their sizes
        if (at + 4 > text_.size()) break;
        static constexpr std::array<std::uint32_t, 6> sizes = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000};
        const std::uint32_t size = pick(sizes);
        for (std::size_t k = 0; k < 4; ++k) text_[at + k] = static_cast<char>(size >> (8 * k));
      }
    }
  }

  void replace_number(const char* number) {
    static constexpr const char* digits = "0123456789";
    const std::size_t begin = text_.find_first_of(digits, below(text_.size() + 1));
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text_.find_first_not_of("0123456789.eE+-", begin), text_.size());
    text_.replace(begin, end - begin, number);
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64& random_;
  std::string text_;
};

}  // namespace

std::string mutated(const std::vector<std::string>& corpus, std::mt19937_64& random) {
  return Mutation(corpus, random).run();
}

std::vector<std::string> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> result;
  for (const auto& path : paths) result.push_back(read_text(path, std::size_t{1} << 24));
  return result;
}

}  // namespace sluice
