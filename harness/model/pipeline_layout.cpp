#include "harness/model/pipeline_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/model/fold_layers.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxLetters = 65'536;

// Reads a layout into the letters of every stage.
class LayoutReader {
 public:
  LayoutReader(const std::string& text, const std::string& where) : text_(text), where_(where), rest_(text) {}

  std::vector<std::string> stages() {
    const std::string all = sequence(false);
    std::vector<std::string> result(1);
    for (const char c : all) {
      if (c == '|')
        result.emplace_back();
      else
        result.back() += c;
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw InputError(where_, "layout '" + text_ + "': " + what, hint);
  }

  // Up to the end, or to the parenthesis that closes a group.
  std::string sequence(bool in_group) {
    std::string result;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == ')') {
        if (!in_group) fail("a ')' closes nothing", "write groups as (tt|)*3");
        return result;
      }
      if (c == ',' || c == ' ') continue;
      if (c == 'm') fail("m is a layer that predicts several tokens", "models here have none: leave it out");
      if (std::string_view("EtL|(").find(c) == std::string_view::npos)
        fail(fmt::format("'{}' is no part of a layout", c),
             "write E, t and L for embedding, blocks and loss, | between stages, and *3 for three times");
      if (c == '(' && in_group) fail("a group within a group", "write it out");
      const std::string part = c == '(' ? sequence(true) : std::string(1, c);
      append(result, part, repetitions());
    }
    if (in_group) fail("a '(' is not closed", "write groups as (tt|)*3");
    return result;
  }

  std::size_t repetitions() {
    if (!rest_.starts_with('*')) return 1;
    rest_.remove_prefix(1);
    const std::optional<double> count = take_number(rest_);
    if (!count || *count < 1 || *count > kMaxLetters || *count != static_cast<double>(static_cast<int>(*count)))
      fail("after '*' no number of times follows", "write it as in t*3");
    return static_cast<std::size_t>(*count);
  }

  void append(std::string& result, const std::string& part, std::size_t times) const {
    if (result.size() + part.size() * times > kMaxLetters)
      fail(fmt::format("it has more than {} parts", kMaxLetters), "check its repetitions");
    for (std::size_t k = 0; k < times; ++k) result += part;
  }

  const std::string& text_;
  const std::string& where_;
  std::string_view rest_;
};

// "ttt" as "t*3".
std::string in_short(const std::string& stage) {
  std::string result;
  for (std::size_t k = 0; k < stage.size();) {
    const std::size_t end = std::min(stage.find_first_not_of(stage[k], k), stage.size());
    result += end - k < 3 ? stage.substr(k, end - k) : fmt::format("{}*{}", stage[k], end - k);
    k = end;
    // A letter after a number of times stands apart, as Megatron's own examples have it.
    if (k < stage.size() && result.find('*') != std::string::npos) result += ',';
  }
  return result;
}

}  // namespace

bool is_layout(const std::string& text) { return text.find_first_of("EtL|") != std::string::npos; }

std::vector<int> stages_of_layout(const std::string& text, const ModelGraph& model, const std::string& where) {
  const std::vector<std::string> stages = LayoutReader(text, where).stages();
  const RepeatedBlocks blocks = repeated_blocks(model);
  const auto fail = [&](const std::string& what, const std::string& hint) {
    throw InputError(where, "layout '" + text + "': " + what, hint);
  };
  if (blocks.copies == 0)
    fail("'" + model.name + "' has no blocks that repeat", "give the first layers of the stages, as in 7,15,22");
  const int after = blocks.begin + blocks.size * blocks.copies, layers = static_cast<int>(model.layers.size());
  std::string expected = (blocks.begin > 0 ? "E" : "") + std::string(static_cast<std::size_t>(blocks.copies), 't') +
                         (after < layers ? "L" : "");
  std::string all;
  for (const std::string& stage : stages) all += stage;
  if (const auto given = std::ranges::count(all, 't'); given != blocks.copies)
    fail(fmt::format("it has {} blocks, and '{}' has {}", given, model.name, blocks.copies), "count the t's again");
  if (all != expected)
    fail(fmt::format("its parts are not {}one t for every block{}", blocks.begin > 0 ? "E, " : "",
                     after < layers ? ", L" : ""),
         "give each once, in this order");
  std::vector<int> first;
  std::size_t done = 0;
  for (const std::string& stage : stages) {
    if (stage.empty()) fail("a stage has nothing", "leave out the '|' before it");
    const int begun = static_cast<int>(done) - (blocks.begin > 0 ? 1 : 0);  // blocks before the stage
    if (done > 0) first.push_back(blocks.begin + begun * blocks.size);
    done += stage.size();
  }
  return first;
}

std::string layout_of_stages(std::span<const int> first_layers, const ModelGraph& model) {
  const RepeatedBlocks blocks = repeated_blocks(model);
  if (blocks.copies == 0) return "";
  const int after = blocks.begin + blocks.size * blocks.copies, layers = static_cast<int>(model.layers.size());
  std::vector<std::string> stages(1);
  std::size_t next = 0;
  const auto add = [&](int layer, char part) {
    if (next < first_layers.size() && first_layers[next] == layer) stages.emplace_back(), ++next;
    stages.back() += part;
  };
  if (blocks.begin > 0) add(0, 'E');
  for (int b = 0; b < blocks.copies; ++b) add(blocks.begin + b * blocks.size, 't');
  if (after < layers) add(after, 'L');
  if (next != first_layers.size()) return "";
  std::string text;
  for (std::size_t s = 0; s < stages.size();) {
    std::size_t end = s;  // of equal stages, all of which another one follows
    while (end + 1 < stages.size() && stages[end] == stages[s]) ++end;
    const std::string stage = in_short(stages[s]);
    if (end - s >= 3)
      text += fmt::format("({}|)*{}{}", stage, end - s, ",");
    else
      for (std::size_t k = s; k < end; ++k) text += stage + "|";
    if (end == s) text += stage;  // the last one
    s = std::max(end, s + 1);
  }
  return text;
}

}  // namespace sluice
