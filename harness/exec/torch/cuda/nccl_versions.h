// The NCCL versions of a build: of the header it was compiled with and of the library it loaded. If they differ, the
// installation is broken, so both are recorded.
#pragma once

#include <string>

namespace sluice {

struct NcclVersions {
  std::string header, library;  // "2.30.7"
};
NcclVersions nccl_versions();  // cuda_calls.cpp: in builds with SLUICE_CUDA

}  // namespace sluice
