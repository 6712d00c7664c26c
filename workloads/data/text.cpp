#include "workloads/data/text.h"

#include <algorithm>

#include "harness/base/splitmix64.h"
#include "harness/base/stop.h"

namespace sluice {

namespace {

constexpr char32_t kReplacement = 0xfffd;

// One code point from `text` at `at`, which moves on. False: not UTF-8; one byte is passed over.
bool next_code_point(std::string_view text, std::size_t& at, char32_t& out) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  std::size_t length = 1;
  char32_t value = first;
  if (first >= 0xf0 && first < 0xf5) {
    length = 4, value = first & 0x07u;
  } else if (first >= 0xe0 && first < 0xf0) {
    length = 3, value = first & 0x0fu;
  } else if (first >= 0xc2 && first < 0xe0) {
    length = 2, value = first & 0x1fu;
  } else if (first >= 0x80) {
    out = kReplacement;
    ++at;
    return false;
  }
  bool ok = at + length <= text.size();
  for (std::size_t k = 1; ok && k < length; ++k) {
    ok = (byte(at + k) & 0xc0u) == 0x80;
    value = value << 6 | (byte(at + k) & 0x3fu);
  }
  // Longer than needed, a surrogate, or above the last code point.
  ok = ok && !(length == 3 && (value < 0x800 || (value >= 0xd800 && value < 0xe000))) &&
       !(length == 4 && (value < 0x10000 || value > 0x10ffff));
  out = ok ? value : kReplacement;
  at += ok ? length : 1;
  return ok;
}

bool is_space(char32_t c) {
  return c <= 0x20 || c == 0x7f || c == 0xa0 || (c >= 0x2000 && c <= 0x200b) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x3000 || c == 0xfeff;
}

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

// Letters and digits. Above ASCII: everything but the blocks of punctuation, symbols and emoji.
bool is_word_character(char32_t c) {
  if (c < 0x80) return is_ascii_letter(c) || is_digit(c);
  if (c < 0xc0) return c == 0xaa || c == 0xb5 || c == 0xba;
  if (c == 0xd7 || c == 0xf7 || c == kReplacement) return false;
  return !(c >= 0x2000 && c < 0x2c00) && !(c >= 0x3000 && c < 0x3040) && !(c >= 0xe000 && c < 0xf900) &&
         !(c >= 0xff00 && c < 0xff10) && c < 0x1f000;
}

char32_t lower(char32_t c) {
  if (c >= 'A' && c <= 'Z') return c + 32;
  if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;
  if (c >= 0x391 && c <= 0x3a9) return c + 32;
  if (c >= 0x410 && c <= 0x42f) return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  return c;
}

// Length of the placeholder that begins at s[at], or 0.
std::size_t placeholder(std::u32string_view s, std::size_t at) {
  const auto name_end = [&](std::size_t from) {
    while (from < s.size() && (is_ascii_letter(s[from]) || is_digit(s[from]) || s[from] == '_')) ++from;
    return from;
  };
  const char32_t first = s[at], second = at + 1 < s.size() ? s[at + 1] : U'\0';
  if (first == '%' && (is_ascii_letter(second) || is_digit(second))) {
    std::size_t end = name_end(at + 1);
    // %s and %d stand for themselves; "%sheet" is none of ours. Upper-case names may close with %.
    const bool upper = second >= 'A' && second <= 'Z';
    if (!is_digit(second) && !upper && end != at + 2) return 0;
    if (upper && end < s.size() && s[end] == '%') ++end;
    if (is_digit(second))
      for (end = at + 1; end < s.size() && is_digit(s[end]);) ++end;
    return end - at;
  }
  if (first == '$' && (second == '(' || second == '{')) {
    stop_now();
    const std::size_t end = s.find(second == '(' ? U')' : U'}', at);
    return end == std::u32string_view::npos ? 0 : end + 1 - at;
  }
  if ((first == '$' || first == '#') && is_ascii_letter(second)) {
    const std::size_t end = name_end(at + 1);
    return end < s.size() && s[end] == first ? end + 1 - at : 0;
  }
  return 0;
}

// Length of the tag that begins at s[at], or 0.
std::size_t tag(std::u32string_view s, std::size_t at) {
  if (s[at] != '<' || at + 1 == s.size()) return 0;
  if (!is_ascii_letter(s[at + 1]) && s[at + 1] != '/') return 0;
  const std::size_t end = s.find_first_of(U"<>", at + 1);
  return end == std::u32string_view::npos || s[end] == '<' ? 0 : end + 1 - at;
}

}  // namespace

bool is_utf8(std::string_view text) {
  char32_t c;
  for (std::size_t at = 0, checked = 0; at < text.size();) {
    if (at >= checked) {
      stop_now();
      checked = at + 65'536;
    }
    if (!next_code_point(text, at, c)) return false;
  }
  return true;
}

std::u32string code_points(std::string_view text) {
  std::u32string result;
  for (std::size_t at = 0; at < text.size();) {
    char32_t c;
    next_code_point(text, at, c);
    result.push_back(c);
  }
  return result;
}

std::string utf8(std::u32string_view text) {
  std::string result;
  for (const char32_t c : text) {
    const auto put = [&](char32_t byte) { result.push_back(static_cast<char>(byte)); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
    } else {
      put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f));
      put(0x80 | (c & 0x3f));
    }
  }
  return result;
}

namespace {

void each_word_of_part(std::string_view text, const std::function<void(const std::string& word)>& use) {
  std::u32string s = code_points(text);
  for (char32_t& c : s) c = c == 0x2019 ? U'\'' : lower(c);  // the typographic apostrophe
  for (std::size_t at = 0; at < s.size();) {
    check_stop();
    if (is_space(s[at]) || s[at] == 0xad) {  // a soft hyphen outside of a word says nothing
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    std::u32string word{s[at]};
    if (s[at] == '{' && end < s.size() && s[end] == '}') {
      word.push_back(s[end++]);
    } else if (is_word_character(s[at])) {
      for (; end < s.size(); ++end) {
        const bool joins = s[end] == '\'' && end + 1 < s.size() && is_word_character(s[end + 1]);
        if (!is_word_character(s[end]) && !joins && s[end] != 0xad) break;
        if (s[end] != 0xad) word.push_back(s[end]);
      }
    }
    use(utf8(word));
    at = end;
  }
}

}  // namespace

void each_word(std::string_view text, const std::function<void(const std::string& word)>& use) {
  // No word goes across a line or a space.
  constexpr std::string_view kSpaces = " \n";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, std::min(begin + 4096, text.size())), text.size());
    each_word_of_part(text.substr(begin, end - begin), use);
    begin = end;
  }
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  each_word(text, [&](const std::string& word) { words.push_back(word); });
  return words;
}

std::string clean_ui_text(std::string_view text) {
  const std::u32string s = code_points(text);
  const auto underscores = std::count(s.begin(), s.end(), U'_');
  std::u32string result;
  const auto space = [&] {
    if (!result.empty() && result.back() != ' ') result.push_back(' ');
  };
  for (std::size_t at = 0; at < s.size();) {
    check_stop();
    if (is_space(s[at])) {
      space();
      ++at;
    } else if (const std::size_t length = tag(s, at)) {
      space();
      at += length;
    } else if (const std::size_t skipped = placeholder(s, at)) {
      result += U"{}";
      at += skipped;
    } else {
      const bool before_word = at + 1 < s.size() && is_word_character(s[at + 1]);
      const bool mark = before_word && (s[at] == '~' || (s[at] == '_' && underscores == 1));
      if (!mark) result.push_back(s[at]);
      ++at;
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return utf8(result);
}

std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mixed_bits(h);  // FNV's low bits of short texts are far from even
}

WordVocabulary::WordVocabulary(const std::map<std::string, std::int64_t>& counts, std::int64_t min_count,
                               std::int64_t size) {
  std::vector<std::pair<std::int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts)
    if (count >= min_count) ranked.emplace_back(-count, word);
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [count, word] : ranked) {
    if (kSpecialTokens + static_cast<std::int64_t>(ids_.size()) >= size) break;
    const auto next = static_cast<std::int32_t>(ids_.size());
    ids_[word] = kSpecialTokens + next;
  }
}

std::int32_t WordVocabulary::id(const std::string& word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnknown : found->second;
}

}  // namespace sluice
