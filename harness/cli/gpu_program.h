// GPUs are the business of a program of their own, sluice-cuda, which loads CUDA's libraries.
#pragma once

#include <string>

namespace sluice {

// Returns if runs on `device` ("cpu" or "cuda") are possible in this program. Otherwise, where
// sluice-cuda stands beside it, that takes over with the same arguments and this does not return.
// Throws InputError: neither it nor this one can use a GPU, and why.
void need_device(const std::string& device);

}  // namespace sluice
