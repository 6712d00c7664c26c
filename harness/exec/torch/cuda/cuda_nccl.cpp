// Ranks with a GPU each, over NCCL, in this process or in several.
#include "harness/exec/torch/cuda/cuda_nccl.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <set>

#include "harness/base/error.h"
#include "harness/exec/threads.h"
#include "harness/exec/torch/cuda/cuda_backend.h"
#include "harness/exec/torch/stage/tensor_message.h"

namespace sluice {

namespace {

// Allocated on the channel's stream, so that the message may arrive while the rank computes: memory that the compute
// stream has freed but may still use is not touched.
at::Tensor block_on_stream(std::int64_t bytes, DeviceCalls::Stream stream) {
  const c10::cuda::CUDAStreamGuard on(
      c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), c10::cuda::current_device()));
  const c10::InferenceMode no_autograd;
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
}

class NcclTransports : public DeviceTransports {
 public:
  NcclTransports(std::vector<RankDevice*> devices, ProcessGroup* processes)
      : devices_(std::move(devices)), processes_(processes), calls_(make_cuda_calls()) {}

  std::unique_ptr<Transport> make(const Program& program) override {
    CommunicatorPlan plan = plan_communicators(program);
    // Connecting takes most of a second: programs with the same channels share the links.
    if (!links_ || links_->broken() || links_->plan() != plan) {
      links_.reset();
      std::vector<NcclLinks::LocalRank> ranks;
      for (std::size_t r = 0; r < devices_.size(); ++r)
        if (devices_[r]) ranks.push_back({Rank(r), devices_[r]->device().index(), devices_[r]->stream()});
      std::vector<NcclId> ids =
          processes_ ? shared_ids(plan, *calls_, *processes_) : NcclLinks::make_ids(plan, *calls_);
      links_ = std::make_unique<NcclLinks>(std::move(plan), std::move(ranks), std::move(ids), *calls_);
    }
    return make_nccl_transport(program, *links_,
                               processes_ ? processes_->transport(program, headers_) : make_thread_transport(program),
                               buffers_);
  }

 private:
  std::vector<RankDevice*> devices_;
  ProcessGroup* processes_;
  std::unique_ptr<DeviceCalls> calls_;
  TensorBuffers buffers_{at::kCUDA, block_on_stream};
  HeaderCodec headers_;
  std::unique_ptr<NcclLinks> links_;
};

}  // namespace

std::unique_ptr<DeviceTransports> make_cuda_nccl_transports(std::vector<RankDevice*> devices, ProcessGroup* processes) {
  std::set<int> used;
  for (const RankDevice* device : devices)
    if (device && !used.insert(device->device().index()).second)
      throw InputError("transport",
                       "nccl connects GPUs, and " + std::to_string(devices.size()) + " ranks would share " +
                           std::to_string(used.size()),
                       "use --transport threads, or a GPU for every rank");
  return std::make_unique<NcclTransports>(std::move(devices), processes);
}

}  // namespace sluice
