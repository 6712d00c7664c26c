// One target under changes of our own, where there is no libFuzzer:
//   sluice_fuzz TARGET CORPUS [--runs N] [--seconds N] [--seed N]
// Prints how many inputs were read; an input that shows a defect, or that crashed the process, is left in
// defect-TARGET.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/tests/fuzz/mutate.h"
#include "harness/tests/fuzz/targets.h"

namespace {

using namespace sluice;

int run(int argc, char** argv) {
  if (argc < 3) throw InputError("sluice_fuzz", "too few arguments", "give TARGET CORPUS [--runs N] [--seconds N]");
  std::map<std::string, double> limits = {{"--runs", 1e18}, {"--seconds", 1e18}, {"--seed", 1}};
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::optional<double> limit = number_in(argv[i + 1]);
    if (!limit) throw InputError(argv[i], "'" + std::string(argv[i + 1]) + "' is no number");
    limits.at(argv[i]) = *limit;
  }
  const FuzzTarget& target = fuzz_target(argv[1]);
  const std::vector<std::string> corpus = read_corpus(argv[2]);
  std::mt19937_64 random(static_cast<std::uint64_t>(limits.at("--seed")));
  const std::string left = std::string("defect-") + argv[1];
  const auto begin = std::chrono::steady_clock::now();
  long runs = 0;
  for (;; ++runs) {
    const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (static_cast<double>(runs) >= limits.at("--runs") || gone > limits.at("--seconds")) break;
    const bool own = static_cast<std::size_t>(runs) < corpus.size();
    const std::string input = own ? corpus[runs] : mutated(corpus, random);
    std::ofstream(fuzz_folder() + "/now", std::ios::binary) << input;  // what crashed it, should it crash
    const std::string defect = defect_of(target, input, fuzz_folder(), /*seconds=*/5);
    if (defect.empty()) continue;
    std::ofstream(left, std::ios::binary) << input;
    std::printf("%s: after %ld inputs: %s; see %s\n", argv[1], runs, defect.c_str(), left.c_str());
    return 1;
  }
  std::printf("%s: %ld inputs\n", argv[1], runs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  }
}
