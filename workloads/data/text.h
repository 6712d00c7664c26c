// From text to token ids: UTF-8, words, markup in user-interface strings, and the hash that splits samples into parts.
// The project has its own code for all of it, so that ids are the same on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Ids of the special tokens, which every vocabulary begins with; kNoTarget: the target of a position without a
// prediction.
inline constexpr std::int32_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3;
inline constexpr std::int32_t kSpecialTokens = 4;
inline constexpr std::int32_t kNoTarget = -100;

bool is_utf8(std::string_view text);

// Code points; a byte that is not UTF-8 gives U+FFFD.
std::u32string code_points(std::string_view text);
std::string utf8(std::u32string_view text);

// Lower-cased words and signs, in order: a word is a run of letters and digits, with apostrophes between them ("it's");
// every other character but white space is a token of its own. "{}" is one token. Letters of ASCII, Latin-1, Greek and
// Cyrillic are lower-cased.
std::vector<std::string> words_of(std::string_view text);
// The same, one by one, for texts of any length.
void each_word(std::string_view text, const std::function<void(const std::string& word)>& use);

// The readable part of a user-interface string:
//   - markup <...> is removed (a "<" that no letter or "/" follows stays: "a < b"),
//   - placeholders (%1, %s, %PRODUCTNAME, $(ARG1), ${name}, $FILE$, #name#) become "{}",
//   - accelerator marks are removed: every "~" before a letter or digit, and "_" before a letter or digit if the string
//     has only one (two or more: an identifier),
//   - white space of all kinds, including line ends, becomes single spaces.
std::string clean_ui_text(std::string_view text);

// FNV-1a with a final mix: the same on every machine. Splits samples by their id.
std::uint64_t stable_hash(std::string_view text);

// The special tokens, then words by descending count (ties: by bytes), without words that are counted less often than
// `min_count`; at most `size` ids in total.
class WordVocabulary {
 public:
  WordVocabulary(const std::map<std::string, std::int64_t>& counts, std::int64_t min_count, std::int64_t size);
  std::int32_t id(const std::string& word) const;  // kUnknown for others
  std::size_t size() const { return ids_.size() + kSpecialTokens; }

 private:
  std::map<std::string, std::int32_t> ids_;
};

}  // namespace sluice
