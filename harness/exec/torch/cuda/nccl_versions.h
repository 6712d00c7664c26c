// Which NCCL a build has: that of the header it was compiled with and that of the library it
// loaded. Two that differ are a broken installation, so both are recorded.
#pragma once

#include <string>

namespace sluice {

struct NcclVersions {
  std::string header, library;  // "2.30.7"
};
NcclVersions nccl_versions();  // cuda_calls.cpp: in builds with SLUICE_CUDA

}  // namespace sluice
