#include "workloads/data/bpe.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>

#include "harness/base/stop.h"

namespace sluice {

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct Word {
  std::vector<std::int32_t> pieces;
  std::int64_t count;
};

// Where two neighbours are `pair`, one `merged` takes their place, from the left.
void merge(std::vector<std::int32_t>& pieces, const Pair& pair, std::int32_t merged) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < pieces.size(); ++from, ++to) {
    const bool here = from + 1 < pieces.size() && pieces[from] == pair.first && pieces[from + 1] == pair.second;
    pieces[to] = here ? merged : pieces[from];
    if (here) ++from;
  }
  pieces.resize(to);
}

// How often each pair stands in the words, and in which, kept up to date while words change.
class PairCounts {
 public:
  void count(std::span<const Word> words, std::size_t index, int sign) {
    const Word& word = words[index];
    for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      check_stop();
      const Pair pair{word.pieces[i], word.pieces[i + 1]};
      if (pair.first == kUnknown || pair.second == kUnknown) continue;
      Occurrences& all = occurrences_[pair];
      all.count += sign * word.count;
      if (sign > 0) all.words.insert(index);
      if (!std::exchange(all.changed, true)) changed_.push_back(pair);
    }
  }
  // The most frequent pair; false if none occurs twice. Entries of the queue that a later count has overtaken are
  // thrown away here.
  bool best(Pair& pair) {
    for (const Pair& one : changed_) {
      check_stop();
      Occurrences& all = occurrences_.at(one);
      all.changed = false;
      if (all.count > 1) queue_.push({all.count, {-one.first, -one.second}});
    }
    changed_.clear();
    for (; !queue_.empty(); queue_.pop()) {
      const auto [n, negative] = queue_.top();
      pair = {-negative.first, -negative.second};
      if (occurrences_.at(pair).count == n) return true;
    }
    return false;
  }
  std::set<std::size_t> words_with(const Pair& pair) { return std::move(occurrences_.at(pair).words); }

 private:
  struct Occurrences {
    std::int64_t count = 0;
    std::set<std::size_t> words;
    bool changed = false;  // since the last best()
  };
  std::map<Pair, Occurrences> occurrences_;
  std::vector<Pair> changed_;
  std::priority_queue<std::pair<std::int64_t, Pair>> queue_;  // pairs negated: older ones first
};

}  // namespace

std::int32_t BytePairs::add(const std::string& text, bool ends_word) {
  pieces_.push_back({text, ends_word});
  return static_cast<std::int32_t>(pieces_.size()) - 1;
}

BytePairs::BytePairs(const std::map<std::string, std::int64_t>& counts, std::int64_t size) {
  for (const char* special : {"<pad>", "<unk>", "<s>", "</s>"}) add(special, true);
  std::map<std::pair<std::string, bool>, std::int64_t> characters_seen;
  for (const auto& [word, count] : counts) {
    const std::u32string s = code_points(word);
    for (std::size_t i = 0; i < s.size(); ++i) {
      check_stop();
      characters_seen[{utf8(s.substr(i, 1)), i + 1 == s.size()}] += count;
    }
  }
  std::vector<std::pair<std::int64_t, std::pair<std::string, bool>>> ranked;
  for (const auto& [character, count] : characters_seen) ranked.emplace_back(-count, character);
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [count, character] : ranked) {
    if (static_cast<std::int64_t>(pieces_.size()) >= size) break;
    character_ids_[character] = add(character.first, character.second);
  }

  std::vector<Word> words;
  PairCounts pairs;
  for (const auto& [word, count] : counts) {
    words.push_back({characters(word), count});
    pairs.count(words, words.size() - 1, 1);
  }
  Pair pair;
  while (static_cast<std::int64_t>(pieces_.size()) < size && pairs.best(pair)) {
    const auto& first = pieces_[pair.first];
    const auto& second = pieces_[pair.second];
    const std::int32_t merged = add(first.text + second.text, second.ends_word);
    merges_[pair] = merged;
    for (const std::size_t index : pairs.words_with(pair)) {
      pairs.count(words, index, -1);
      merge(words[index].pieces, pair, merged);
      pairs.count(words, index, 1);
    }
  }
}

std::vector<std::int32_t> BytePairs::characters(const std::string& word) const {
  std::vector<std::int32_t> ids;
  const std::u32string s = code_points(word);
  for (std::size_t i = 0; i < s.size(); ++i) {
    check_stop();
    const auto found = character_ids_.find({utf8(s.substr(i, 1)), i + 1 == s.size()});
    ids.push_back(found == character_ids_.end() ? kUnknown : found->second);
  }
  return ids;
}

std::vector<std::int32_t> BytePairs::encode(std::span<const std::string> words) const {
  std::vector<std::int32_t> result;
  for (const std::string& word : words) {
    std::vector<std::int32_t> pieces = characters(word);
    for (;;) {
      // The oldest merge first, as in learning.
      auto oldest = merges_.end();
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
        check_stop();
        const auto found = merges_.find({pieces[i], pieces[i + 1]});
        if (found != merges_.end() && (oldest == merges_.end() || found->second < oldest->second)) oldest = found;
      }
      if (oldest == merges_.end()) break;
      merge(pieces, oldest->first, oldest->second);
    }
    result.insert(result.end(), pieces.begin(), pieces.end());
  }
  return result;
}

std::vector<std::string> BytePairs::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> words;
  bool open = false;
  for (const std::int32_t id : ids) {
    if (id < kSpecialTokens && id != kUnknown) continue;
    const Piece& next = pieces_.at(id);
    if (!open) words.emplace_back();
    words.back() += next.text;
    open = !next.ends_word;
  }
  return words;
}

}  // namespace sluice
