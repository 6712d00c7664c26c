// Every reader of files, as a function of bytes: what fuzzing calls, with libFuzzer or with changes of our own.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

struct FuzzTarget {
  std::string name;  // also of its folder in corpus/
  // Writes the bytes into files of `folder` and reads them. Throws what the reader throws.
  void (*read)(std::string_view bytes, const std::string& folder);
};

std::span<const FuzzTarget> fuzz_targets();
const FuzzTarget& fuzz_target(const std::string& name);  // throws InputError with a suggestion

// Reads with a target and looks at how that ends: InputError or a result, within `seconds`. Anything else is a defect,
// and is returned in words; "" where all is well.
std::string defect_of(const FuzzTarget& target, std::string_view bytes, const std::string& folder, double seconds);

// A folder in memory for the files of this process, taken away at its end.
const std::string& fuzz_folder();

}  // namespace sluice
