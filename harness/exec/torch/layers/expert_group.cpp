#include "harness/exec/torch/layers/expert_group.h"

#include <ATen/ATen.h>

#include <numeric>
#include <stdexcept>

namespace sluice {

void ExpertGroup::join(Transport& transport) {
  transport_ = &transport;
  exchanged_ = {};
}

// As doubles, which hold every count of rows exactly.
std::vector<std::int64_t> ExpertGroup::exchange(std::span<const std::int64_t> numbers) {
  if (!transport_) throw std::logic_error("spread experts run outside of their group");
  const std::vector<double> sent(numbers.begin(), numbers.end());
  std::vector<double> received(sent.size());
  const std::vector<std::size_t> counts(static_cast<std::size_t>(members_), sent.size() / members_);
  transport_->all_to_all(group_, member_, sent.data(), counts, received.data(), counts, ElementType::float64);
  return {received.begin(), received.end()};
}

at::Tensor ExpertGroup::exchange(const at::Tensor& rows, std::span<const std::int64_t> to,
                                 std::span<const std::int64_t> from) {
  if (!transport_) throw std::logic_error("spread experts run outside of their group");
  const at::Tensor sent = rows.contiguous();
  const std::int64_t width = rows.size(1);
  at::Tensor received = at::empty({std::accumulate(from.begin(), from.end(), std::int64_t{0}), width}, rows.options());
  const auto elements = [width](std::span<const std::int64_t> counts) {
    std::vector<std::size_t> result;
    for (const std::int64_t count : counts) result.push_back(static_cast<std::size_t>(count * width));
    return result;
  };
  const ElementType type = sent.scalar_type() == at::kDouble ? ElementType::float64 : ElementType::float32;
  transport_->all_to_all(group_, member_, sent.const_data_ptr(), elements(to), received.mutable_data_ptr(),
                         elements(from), type);
  exchanged_ += {1, static_cast<std::int64_t>(sent.nbytes())};
  return received;
}

}  // namespace sluice
