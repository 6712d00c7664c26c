#include "harness/model/fold_layers.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "harness/base/json.h"
#include "harness/model/model_json.h"

namespace sluice {

namespace {

constexpr int kMaxBlock = 64, kMinCopies = 3;

// Where the numbers in a name are: "add1_23" holds 1 and 23.
std::vector<std::pair<std::size_t, std::size_t>> numbers_in(const std::string& name) {
  std::vector<std::pair<std::size_t, std::size_t>> result;  // begin, length
  for (std::size_t k = 0; k < name.size(); ++k) {
    if (!std::isdigit(static_cast<unsigned char>(name[k]))) continue;
    std::size_t end = k;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    if (end - k <= 6 && (name[k] != '0' || end - k == 1)) result.emplace_back(k, end - k);
    k = end;
  }
  return result;
}

struct Run : RepeatedBlocks {
  int number = 0;  // in the names of the first block
  int saved() const { return (copies - 1) * size; }
};

class Folder {
 public:
  explicit Folder(const ModelGraph& model) : model_(model), json_(to_json(model)["layers"]) {}

  Json layers() const {
    Json result = Json::array();
    for (int l = 0; l < count();) {
      const Run run = best_run(l);
      if (run.copies < kMinCopies) {
        result.push_back(json_[l++]);
        continue;
      }
      Json block = {{"repeat", run.copies}, {"layers", Json::array()}};
      if (run.number != 0) block["first"] = run.number;
      for (int j = 0; j < run.size; ++j) block["layers"].push_back(in_block(run, j));
      result.push_back(std::move(block));
      l += run.copies * run.size;
    }
    return result;
  }

  RepeatedBlocks longest() const {
    Run longest;
    for (int l = 0; l < count();) {
      const Run run = best_run(l);
      if (run.copies >= kMinCopies && run.saved() > longest.saved()) longest = run;
      l += std::max(1, run.copies * run.size);
    }
    return longest;
  }

 private:
  int count() const { return static_cast<int>(model_.layers.size()); }
  const LayerSpec& layer(int l) const { return model_.layers[l]; }

  Run best_run(int begin) const {
    Run best;
    for (const auto& [at, length] : numbers_in(layer(begin).name)) {
      const int number = std::stoi(layer(begin).name.substr(at, length));
      for (int size = 1; size <= std::min(kMaxBlock, (count() - begin) / kMinCopies); ++size) {
        Run run{{begin, size, 1}, number};
        if (!is_block(run)) continue;
        while (begin + (run.copies + 1) * size <= count() && is_copy(run, run.copies)) ++run.copies;
        if (run.copies >= kMinCopies && run.saved() > best.saved()) best = run;
      }
    }
    return best;
  }

  // The name with "{i}" for the last number that is `number`.
  static std::optional<std::string> pattern(const std::string& name, int number) {
    const auto numbers = numbers_in(name);
    for (auto n = numbers.rbegin(); n != numbers.rend(); ++n)
      if (std::stoi(name.substr(n->first, n->second)) == number)
        return name.substr(0, n->first) + "{i}" + name.substr(n->first + n->second);
    return std::nullopt;
  }

  bool is_block(const Run& run) const {
    for (int j = 0; j < run.size; ++j)
      if (layer(run.begin + j).tied_to >= 0 || !pattern(layer(run.begin + j).name, run.number)) return false;
    return true;
  }

  bool is_copy(const Run& run, int copy) const {
    const int shift = copy * run.size;
    for (int j = 0; j < run.size; ++j) {
      const LayerSpec &one = layer(run.begin + j), &other = layer(run.begin + shift + j);
      if (pattern(one.name, run.number) != pattern(other.name, run.number + copy) || other.tied_to >= 0) return false;
      if (other.block != (one.block < 0 ? one.block : one.block + copy)) return false;
      if (one.inputs.size() != other.inputs.size()) return false;
      for (std::size_t k = 0; k < one.inputs.size(); ++k) {
        const bool moves = one.inputs[k] >= run.begin - 1 && one.inputs[k] >= 0;
        if (other.inputs[k] != one.inputs[k] + (moves ? shift : 0)) return false;
      }
      if (fields(run.begin + j) != fields(run.begin + shift + j)) return false;
    }
    return true;
  }

  Json fields(int l) const {
    Json result = json_[l];
    for (const char* key : {"name", "inputs", "block"}) result.erase(key);
    return result;
  }

  Json in_block(const Run& run, int j) const {
    const LayerSpec& l = layer(run.begin + j);
    Json result = json_[run.begin + j];
    result["name"] = *pattern(l.name, run.number);
    result.erase("inputs");
    if (l.inputs == std::vector<int>{run.begin + j - 1}) return result;
    for (const int input : l.inputs) {
      if (input >= run.begin)
        result["inputs"].push_back(*pattern(layer(input).name, run.number));
      else if (input >= 0 && input == run.begin - 1)
        result["inputs"].push_back("block_input");
      else if (input >= 0)
        result["inputs"].push_back(layer(input).name);
      else
        result["inputs"].push_back(input);
    }
    return result;
  }

  const ModelGraph& model_;
  const Json json_;
};

}  // namespace

Json folded_layers(const ModelGraph& model) { return Folder(model).layers(); }

RepeatedBlocks repeated_blocks(const ModelGraph& model) { return Folder(model).longest(); }

}  // namespace sluice
