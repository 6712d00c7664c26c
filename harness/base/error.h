// The two errors of a command. InputError: the user can correct it (exit code 2; says where, what, and what to do).
// RunError: a run or a check failed (exit code 1). Any other exception is a defect of ours.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class InputError : public std::runtime_error {
 public:
  // where: "quick.json: /grid/0/system", what: "unknown system 'gpip'", advice may be empty.
  InputError(const std::string& where, const std::string& what, const std::string& advice = "");
};

class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The candidate nearest to `name` by edit distance; "" if none is within a third of its length, or 2, and within it.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "did you mean 'gpipe'?" or, if none is near, "known: a, b, c".
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace sluice
