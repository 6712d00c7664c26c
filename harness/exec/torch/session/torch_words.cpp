#include "harness/exec/torch/session/torch_words.h"

#include <c10/util/Exception.h>

#include "harness/base/error_words.h"

namespace sluice {

// Without its backtrace, and one line. The CPU allocator's exception has no type of its own.
static std::optional<std::string> torch_words(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (!torch) return std::nullopt;
  const std::string text = torch->what_without_backtrace();
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(torch) ||
                      text.find("DefaultCPUAllocator") != std::string::npos ||
                      text.find("Storage size calculation overflowed") != std::string::npos;
  if (memory) return kOutOfMemory;
  return "LibTorch rejects: " + text.substr(0, text.find('\n'));
}

void know_torch_errors() {
  static const bool known = [] {
    add_error_words(torch_words);
    return true;
  }();
  static_cast<void>(known);
}

}  // namespace sluice
