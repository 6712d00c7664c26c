// GPUs are the business of a program of their own, sluice-cuda, which loads CUDA's libraries.
#pragma once

#include "harness/case/choices.h"

namespace sluice {

// Returns if ranks can run on `device` in this program. Otherwise, where sluice-cuda is in the same folder, that takes
// over with the same arguments and this does not return. Throws InputError: neither program can use a GPU, and why.
void need_device(DeviceKind device);

}  // namespace sluice
