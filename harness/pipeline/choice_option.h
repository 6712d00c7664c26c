// An option of a system whose values are names of an enum's values. The names are declared here only; the system
// decides by the enum.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/options.h"

namespace sluice {

template <class Enum>
class ChoiceOption {
 public:
  // The first choice is the default.
  ChoiceOption(std::string name, std::string help, std::vector<std::pair<std::string, Enum>> choices)
      : name_(std::move(name)), help_(std::move(help)), choices_(std::move(choices)) {}

  // The chosen value. Throws std::logic_error if the system has no such option.
  Enum operator()(const Options& options) const {
    const std::string& word = options.text(name_);
    return std::ranges::find(choices_, word, &std::pair<std::string, Enum>::first)->second;
  }

  OptionSpec spec() const {
    OptionSpec spec{name_, choices_.front().first, help_};
    for (const auto& [word, value] : choices_) spec.choices.push_back(word);
    return spec;
  }

 private:
  std::string name_, help_;
  std::vector<std::pair<std::string, Enum>> choices_;
};

}  // namespace sluice
