// The replicas of a stage whose experts are spread over them (model/expert_spread.h), as one of them sees the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/exec/torch/layers/layer.h"
#include "harness/exec/transport.h"
#include "harness/model/tensor_split.h"

namespace sluice {

class ExpertGroup {
 public:
  // group: the stage's number in collective_groups(); member: the caller's place among its ranks.
  ExpertGroup(int group, int member, int members) : group_(group), member_(member), members_(members) {}

  // From now on exchanges use this transport, which must outlive the run; counts begin again.
  void join(Transport& transport);
  int member() const { return member_; }
  int members() const { return members_; }

  // numbers: equally many for every member, in their order. Returns those for the caller, likewise.
  std::vector<std::int64_t> exchange(std::span<const std::int64_t> numbers);
  // rows: [sum of `to`, width], to[k] of them for member k, in their order. Returns [sum of `from`, width], likewise.
  at::Tensor exchange(const at::Tensor& rows, std::span<const std::int64_t> to, std::span<const std::int64_t> from);
  const TensorSums& exchanged() const { return exchanged_; }  // of rows: exchanges, and bytes handed in

 private:
  int group_, member_, members_;
  Transport* transport_ = nullptr;
  TensorSums exchanged_;
};

// The experts that the group's member holds. The k-th op of it meets the k-th of every other member.
std::unique_ptr<Layer> make_spread_experts(const Experts& spec, ExpertGroup& group);

}  // namespace sluice
