// GPUs need a separate program, sluice-cuda, which loads CUDA's libraries.
#pragma once

#include "harness/case/choices.h"

namespace sluice {

// Returns if ranks can run on `device` in this program. Otherwise it runs sluice-cuda, if that is in the same folder,
// with the same arguments, and does not return. Throws InputError if neither program can use a GPU, with the reason.
void need_device(DeviceKind device);

}  // namespace sluice
