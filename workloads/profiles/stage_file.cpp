#include "workloads/profiles/stage_file.h"

#include <algorithm>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/numbers.h"

namespace sluice {

namespace {

// The numbers of a text, each with its line.
class Numbers {
 public:
  Numbers(const std::string& text, std::string file) : file_(std::move(file)) {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      std::istringstream words(line);
      for (std::string word; words >> word;) words_.push_back({word, number});
    }
  }
  bool done() const { return next_ == words_.size(); }
  std::string where() const {
    const int line = words_.empty() ? 1 : words_[std::min(next_, words_.size() - 1)].second;
    return file_ + ":" + std::to_string(line);
  }
  std::int64_t take(const std::string& what, std::int64_t least, std::int64_t most) {
    if (done()) throw InputError(where(), "ends before " + what);
    const std::string place = where();
    const std::string& word = words_[next_++].first;
    const std::optional<std::int64_t> value = whole_number_in(word);
    if (!value) throw InputError(place, what + ": '" + word + "' is not a whole number");
    if (*value < least || *value > most)
      throw InputError(
          place, what + ": " + word + " is not between " + std::to_string(least) + " and " + std::to_string(most));
    return *value;
  }

 private:
  std::string file_;
  std::vector<std::pair<std::string, int>> words_;
  std::size_t next_ = 0;
};

}  // namespace

bool is_stage_file(const std::string& text) {
  return text.find_first_of("0123456789") != std::string::npos &&
         text.find_first_not_of("0123456789 \t\r\n") == std::string::npos;
}

StageFile read_stage_file(const std::string& text, const std::string& file) {
  constexpr std::int64_t most = 1'000'000;
  Numbers numbers(text, file);
  StageFile result;
  const auto operators = numbers.take("the number of operators", 1, most);
  for (std::int64_t i = 0; i < operators; ++i)
    result.stage_of.push_back(static_cast<int>(numbers.take("the stage of operator " + std::to_string(i), 0, most)));
  const int used = 1 + *std::ranges::max_element(result.stage_of);
  for (int s = 0; s < used; ++s)
    if (std::ranges::find(result.stage_of, s) == result.stage_of.end())
      throw InputError(file, "no operator is in stage " + std::to_string(s));
  if (numbers.done()) return result;
  const auto stages = numbers.take("the number of stages", 1, most);
  if (stages != used)
    throw InputError(numbers.where(),
                     "gives " + std::to_string(stages) + " stages, the operators use " + std::to_string(used));
  for (std::int64_t s = 0; s < stages; ++s) {
    const std::string of = " of stage " + std::to_string(s);
    StageFile::Stage stage;
    stage.micro_batch = numbers.take("the micro-batch" + of, 1, most);
    stage.buffer = numbers.take("the buffer" + of, 1, most);
    stage.forwards_in_a_row = static_cast<int>(numbers.take("k" + of, 1, most));
    stage.devices = static_cast<int>(numbers.take("the devices" + of, 1, most));
    result.stages.push_back(stage);
  }
  if (!numbers.done()) throw InputError(numbers.where(), "goes on after the last stage");
  return result;
}

Plan plan_of(const StageFile& file_stages, const CostGraph& costs, const std::string& file) {
  if (file_stages.stage_of.size() != costs.layers.size())
    throw InputError(file, "places " + std::to_string(file_stages.stage_of.size()) + " operators, the model has " +
                               std::to_string(costs.layers.size()) + " layers");
  Plan plan;
  plan.stages.resize(1 + *std::ranges::max_element(file_stages.stage_of));
  for (std::size_t l = 0; l < file_stages.stage_of.size(); ++l)
    plan.stages[file_stages.stage_of[l]].layers.push_back(static_cast<int>(l));
  plan.micro_batch = costs.micro_batch;
  int device = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageFile::Stage stage = file_stages.stages.empty() ? StageFile::Stage{} : file_stages.stages[s];
    if (s == 0 && stage.micro_batch > 0) plan.micro_batch = stage.micro_batch;
    if (stage.micro_batch > 0 && stage.micro_batch != plan.micro_batch)
      throw InputError(file,
                       "stage " + std::to_string(s) + " has micro-batches of " + std::to_string(stage.micro_batch) +
                           " samples, stage 0 of " + std::to_string(plan.micro_batch),
                       "a plan has one size for all stages");
    for (int d = 0; d < stage.devices; ++d) plan.stages[s].devices.emplace_back(device++);
  }
  return plan;
}

}  // namespace sluice
