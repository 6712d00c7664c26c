// One target under libFuzzer: SLUICE_FUZZ_TARGET=idx sluice_fuzz corpus/idx
#include <cstdio>
#include <cstdlib>

#include "harness/tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace sluice;
  static const FuzzTarget& target = [&]() -> const FuzzTarget& {
    const char* name = std::getenv("SLUICE_FUZZ_TARGET");
    return fuzz_target(name ? name : "");
  }();
  const std::string defect =
      defect_of(target, {reinterpret_cast<const char*>(data), size}, fuzz_folder(), /*seconds=*/5);
  if (defect.empty()) return 0;
  std::fprintf(stderr, "%s: %s\n", target.name.c_str(), defect.c_str());
  std::abort();
}
