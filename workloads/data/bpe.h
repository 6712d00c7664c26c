// Byte-pair encoding of words (Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units",
// ACL 2016, section 3.2). A word is first cut into characters; then the most frequent pair of neighbouring subwords is
// merged repeatedly. The last character of a word has an end mark, so that consecutive subwords give the words back.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/data/text.h"

namespace sluice {

class BytePairs {
 public:
  // Learns pieces from words with their counts until there are `size` ids (special tokens included) or no pair occurs
  // twice. Ties: the pair whose pieces are older. Characters that do not fit into `size` (the rarest) are unknown.
  BytePairs(const std::map<std::string, std::int64_t>& counts, std::int64_t size);

  std::vector<std::int32_t> encode(std::span<const std::string> words) const;
  // Special tokens are skipped, except kUnknown, which gives "<unk>" and ends its word. Pieces after the last end mark
  // are also a word.
  std::vector<std::string> decode(std::span<const std::int32_t> ids) const;
  std::size_t size() const { return pieces_.size(); }
  const std::string& piece(std::int32_t id) const { return pieces_[id].text; }

 private:
  struct Piece {
    std::string text;
    bool ends_word = false;
  };
  std::vector<std::int32_t> characters(const std::string& word) const;
  std::int32_t add(const std::string& text, bool ends_word);

  std::vector<Piece> pieces_;                                             // by id
  std::map<std::pair<std::string, bool>, std::int32_t> character_ids_;    // (text, ends word)
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> merges_;  // pair -> its id
};

}  // namespace sluice
