// LibTorch's exceptions in our words.
#pragma once

namespace sluice {

// Makes words_of() (harness/base/error_words.h) know them. Called by whatever enters LibTorch; only the first call does
// something.
void know_torch_errors();

}  // namespace sluice
