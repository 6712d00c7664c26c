// LibTorch's exceptions in our words.
#pragma once

namespace sluice {

// Makes words_of() (harness/base/error_words.h) know them. Called by all code that enters LibTorch; only the first call
// has an effect.
void know_torch_errors();

}  // namespace sluice
