#include "systems/spp/replicated_partition.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "harness/base/stop.h"

namespace sluice {

namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

std::vector<double> prefix_sums(const std::vector<double>& values) {
  std::vector<double> sums{0};
  for (const double v : values) sums.push_back(sums.back() + v);
  return sums;
}

// Sums over groups and minima over device intervals. Devices [end - r, end) throughout.
class Model {
 public:
  explicit Model(const ReplicationProblem& p)
      : problem(p),
        groups(static_cast<std::size_t>(p.chain.groups())),
        devices(p.speeds.size()),
        max_replicas(p.max_replicas > 0 ? std::min(static_cast<std::size_t>(p.max_replicas), devices) : devices),
        parameters(prefix_sums(p.chain.parameters)),
        outputs(prefix_sums(p.chain.outputs)),
        inside_(devices * devices, kImpossible),
        speed_(devices * devices, 0),
        across_(devices * devices * devices, 0) {
    std::vector<double> both(groups);
    for (std::size_t u = 0; u < groups; ++u) both[u] = p.chain.forward[u] + p.chain.backward[u];
    seconds = prefix_sums(both);
    for (std::size_t u = 0; u + 1 < groups; ++u) crossing.push_back(p.chain.cut_forward[u] + p.chain.cut_backward[u]);
    measure_intervals();
  }

  // Seconds of an iteration for each second, and each parameter byte, of the stage's layers.
  double compute_factor(std::size_t end, std::size_t r) const {
    return problem.microbatches / (static_cast<double>(r) * speed_[pair(end, r)]);
  }
  double reduce_factor(std::size_t end, std::size_t r) const {
    const auto replicas = static_cast<double>(r);
    return r == 1 ? 0 : 2 * (replicas - 1) / replicas / inside_[pair(end, r)];
  }
  // Seconds a byte of one micro-batch from [end - before, end) to [end, end + r).
  const double* channel_factors(std::size_t end, std::size_t r) const {  // by before - 1
    return &across_[(end * devices + r - 1) * devices];
  }

  bool fits(std::size_t first, std::size_t last, std::size_t end, std::size_t r, int stages_after) const {
    const StageMemoryLimit& limit = problem.memory.value();
    const int replicas = static_cast<int>(r);
    const int most = (problem.microbatches + replicas - 1) / replicas;  // that come to one
    const double bytes = limit.tensors_per_parameter * (parameters[last] - parameters[first]) +
                         std::min(most, limit.in_flight(stages_after)) * (outputs[last] - outputs[first]);
    for (std::size_t d = end - r; d < end; ++d)
      if (bytes > limit.capacity[d]) return false;
    return true;
  }

  const ReplicationProblem& problem;
  std::size_t groups, devices, max_replicas;
  std::vector<double> seconds, parameters, outputs;  // [groups + 1], sums of those before
  std::vector<double> crossing;                      // [groups - 1], bytes in both directions after group k

 private:
  std::size_t pair(std::size_t end, std::size_t r) const { return (end - 1) * devices + r - 1; }

  void measure_intervals() {
    const SquareMatrix& b = problem.bandwidths;
    for (std::size_t end = 1; end <= devices; ++end)
      for (std::size_t r = 1; r <= end; ++r) {
        const std::size_t added = end - r;
        double slowest_link = r > 1 ? inside_[pair(end, r - 1)] : kImpossible;
        for (std::size_t d = added + 1; d < end; ++d) slowest_link = std::min(slowest_link, b.at(added, d));
        inside_[pair(end, r)] = slowest_link;
        speed_[pair(end, r)] =
            r > 1 ? std::min(speed_[pair(end, r - 1)], problem.speeds[added]) : problem.speeds[added];
      }
    std::vector<double> slowest(devices);  // from [end - before, end) to [end, end + r), by r - 1
    for (std::size_t end = 1; end < devices; ++end) {
      std::ranges::fill(slowest, kImpossible);
      for (std::size_t before = 1; before <= end; ++before) {
        double from_added = kImpossible;
        for (std::size_t r = 1; end + r <= devices; ++r) {
          from_added = std::min(from_added, b.at(end - before, end + r - 1));
          slowest[r - 1] = std::min(slowest[r - 1], from_added);
          across_[(end * devices + r - 1) * devices + before - 1] =
              1 / (static_cast<double>(before * r) * slowest[r - 1]);
        }
      }
    }
  }

  std::vector<double> inside_, speed_;  // of [end - r, end): slowest link, slowest device
  std::vector<double> across_;
};

// f(x, end, r, last): the least workload of groups [0, last) in x stages on devices [0, end), the
// last stage on the last r of them. Only the rows of x - 1 and x are kept, and every choice.
class PartitionSearch {
 public:
  PartitionSearch(const Model& model, ReplicatedPartitions& result)
      : model_(model), result_(result), width_(model.groups + 1) {}

  // Rows 1 to `most`; take(x) after each. `total`: the number of stages that memory is counted for,
  // 0 where it is not counted. False: ended early.
  template <class Take>
  bool run(std::size_t most, std::size_t total, Take take) {
    choices_.clear();
    bytes_ = static_cast<std::int64_t>(sizeof(double)) *
             static_cast<std::int64_t>(model_.devices * model_.devices * (2 * width_ + model_.devices));
    first_row(total);
    take(std::size_t{1});
    for (std::size_t x = 2; x <= most; ++x) {
      if (!next_row(x, total)) return false;
      take(x);
    }
    return true;
  }

  std::optional<ReplicatedPartition> best(std::size_t x) const {
    std::size_t end = model_.devices, r = 0;
    double least = kImpossible;
    for (std::size_t e = model_.problem.all_devices ? model_.devices : x; e <= model_.devices; ++e)
      for (std::size_t k = 1; k <= std::min(e - x + 1, model_.max_replicas); ++k)
        if (row_[at(e, k) + model_.groups] < least) {
          least = row_[at(e, k) + model_.groups];
          end = e;
          r = k;
        }
    if (r == 0) return std::nullopt;
    ReplicatedPartition partition{least, std::vector<ReplicatedStage>(x)};
    std::size_t last = model_.groups;
    for (std::size_t s = x; s > 0; --s) {
      const Choice choice = s > 1 ? choices_[s - 2][choice_at(s, end, r, last)] : Choice{0, 0};
      partition.stages[s - 1] = {static_cast<int>(choice.cut), static_cast<int>(last), static_cast<int>(end - r),
                                 static_cast<int>(end)};
      last = choice.cut;
      end -= r;
      r = choice.replicas;
    }
    return partition;
  }

 private:
  struct Choice {
    std::uint16_t cut, replicas;  // where the last stage begins; replicas of the one before it
  };

  std::size_t at(std::size_t end, std::size_t r) const { return ((end - 1) * model_.devices + r - 1) * width_; }
  // Row x has states for end >= x, r <= end - x + 1, last >= x.
  std::size_t choice_at(std::size_t x, std::size_t end, std::size_t r, std::size_t last) const {
    const std::size_t k = end - x;
    return (k * (k + 1) / 2 + r - 1) * (width_ - x) + last - x;
  }

  bool fits(std::size_t first, std::size_t last, std::size_t end, std::size_t r, std::size_t x,
            std::size_t total) const {
    return total == 0 || model_.fits(first, last, end, r, static_cast<int>(total - x));
  }

  void first_row(std::size_t total) {
    row_.assign(model_.devices * model_.devices * width_, kImpossible);
    for (std::size_t r = 1; r <= model_.max_replicas; ++r)
      for (std::size_t last = 1; last <= model_.groups; ++last) {
        ++result_.states;
        if (fits(0, last, r, r, 1, total))
          row_[at(r, r) + last] =
              model_.compute_factor(r, r) * model_.seconds[last] + model_.reduce_factor(r, r) * model_.parameters[last];
      }
  }

  bool next_row(std::size_t x, std::size_t total) {
    const std::size_t spare = model_.devices - x + 1;
    const std::size_t states = spare * (spare + 1) / 2 * (width_ - x);
    bytes_ += static_cast<std::int64_t>(states * sizeof(Choice));
    if (bytes_ > model_.problem.table_bytes) return false;
    before_.swap(row_);
    row_.assign(before_.size(), kImpossible);
    auto& choices = choices_.emplace_back(states);
    for (std::size_t end = x; end <= model_.devices; ++end) {
      check_stop();
      if (model_.problem.stop()) return false;
      for (std::size_t r = 1; r <= std::min(end - x + 1, model_.max_replicas); ++r) {
        best_before(x, end - r, r);
        cut_last_stage(x, end, r, total, &choices[choice_at(x, end, r, x)]);
      }
    }
    return true;
  }

  // before_best_[cut]: the least workload of the x - 1 stages before a cut, on devices [0, end),
  // and of the channel over it to a stage of r replicas.
  void best_before(std::size_t x, std::size_t end, std::size_t r) {
    check_stop();
    before_best_.assign(model_.groups, kImpossible);
    const double* factors = model_.channel_factors(end, r);
    const std::size_t most = std::min(end - (x - 2), model_.max_replicas);
    for (std::size_t replicas = 1; replicas <= most; ++replicas) {
      const double* workload = &before_[at(end, replicas)];
      const double factor = model_.problem.microbatches * factors[replicas - 1];
      for (std::size_t cut = x - 1; cut < model_.groups; ++cut)
        before_best_[cut] = std::min(before_best_[cut], std::max(workload[cut], factor * model_.crossing[cut - 1]));
    }
  }

  void cut_last_stage(std::size_t x, std::size_t end, std::size_t r, std::size_t total, Choice* choices) {
    const double compute = model_.compute_factor(end, r), reduce = model_.reduce_factor(end, r);
    double* row = &row_[at(end, r)];
    for (std::size_t last = x; last <= model_.groups; ++last) {
      ++result_.states;
      double least = kImpossible;
      std::size_t chosen = 0;
      for (std::size_t cut = last - 1; cut >= x - 1; --cut) {
        const double own = compute * (model_.seconds[last] - model_.seconds[cut]) +
                           reduce * (model_.parameters[last] - model_.parameters[cut]);
        if (own > least || !fits(cut, last, end, r, x, total)) break;  // both only grow from here
        const double candidate = std::max(own, before_best_[cut]);
        if (candidate <= least && candidate < kImpossible) {
          least = candidate;
          chosen = cut;
        }
      }
      row[last] = least;
      if (chosen > 0)
        choices[last - x] = {static_cast<std::uint16_t>(chosen), fewest_before(end - r, r, chosen, least)};
    }
  }

  // The fewest replicas of the stage before that reach the workload.
  std::uint16_t fewest_before(std::size_t end, std::size_t r, std::size_t cut, double workload) const {
    const double* factors = model_.channel_factors(end, r);
    for (std::size_t replicas = 1; replicas <= end; ++replicas) {
      const double factor = model_.problem.microbatches * factors[replicas - 1];
      if (before_[at(end, replicas) + cut] <= workload && factor * model_.crossing[cut - 1] <= workload)
        return static_cast<std::uint16_t>(replicas);
    }
    throw std::logic_error("a workload that no choice reaches");
  }

  const Model& model_;
  ReplicatedPartitions& result_;
  std::size_t width_;
  std::int64_t bytes_ = 0;
  std::vector<double> row_, before_, before_best_;
  std::vector<std::vector<Choice>> choices_;  // of rows 2, 3, ...
};

}  // namespace

ReplicatedPartitions partition_and_replicate(const ReplicationProblem& problem) {
  const Model model(problem);
  if (model.groups == 0 || model.devices == 0 || model.groups > 65'535 || model.devices > 65'535 ||
      problem.bandwidths.size() != model.devices)
    throw std::logic_error("a chain and devices that do not belong together");
  const std::size_t possible = std::min(model.groups, model.devices);
  const std::size_t most = problem.stages > 0 ? std::min(static_cast<std::size_t>(problem.stages), possible) : possible;
  ReplicatedPartitions result;
  const auto wanted = [&](std::size_t x) {
    return problem.stages == 0 || x == static_cast<std::size_t>(problem.stages);
  };
  const auto keep = [&](const PartitionSearch& search, std::size_t x) {
    result.by_stages.resize(x);
    if (wanted(x)) result.by_stages[x - 1] = search.best(x);
  };
  PartitionSearch search(model, result);
  if (!problem.memory) {
    result.complete = search.run(most, 0, [&](std::size_t x) { keep(search, x); });
    return result;
  }
  // How much a stage holds depends on how many come after it: one search for every number.
  for (std::size_t total = 1; total <= most && result.complete; ++total)
    if (wanted(total))
      result.complete = search.run(total, total, [&](std::size_t x) {
        if (x == total) keep(search, x);
      });
  return result;
}

PipelineTimes pipeline_times(const ReplicationProblem& problem, const std::vector<ReplicatedStage>& stages) {
  const LayerChain& chain = problem.chain;
  const auto sum = [](const std::vector<double>& values, const ReplicatedStage& s) {
    return std::accumulate(values.begin() + s.first_group, values.begin() + s.last_group, 0.0);
  };
  const auto slowest_link = [&](const ReplicatedStage& a, const ReplicatedStage& b) {
    double slowest = kImpossible;
    for (int u = a.first_device; u < a.last_device; ++u)
      for (int v = b.first_device; v < b.last_device; ++v)
        if (u != v) slowest = std::min(slowest, problem.bandwidths.at(u, static_cast<std::size_t>(v)));
    return slowest;
  };
  PipelineTimes times;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const ReplicatedStage& s = stages[k];
    const double r = s.replicas();
    const double speed =
        *std::min_element(problem.speeds.begin() + s.first_device, problem.speeds.begin() + s.last_device);
    times.forward.push_back(sum(chain.forward, s) / r / speed);
    times.backward.push_back(sum(chain.backward, s) / r / speed);
    times.all_reduce.push_back(r > 1 ? 2 * (r - 1) / r * sum(chain.parameters, s) / slowest_link(s, s) : 0);
    if (k + 1 == stages.size()) break;
    const ReplicatedStage& next = stages[k + 1];
    const double rate = r * next.replicas() * slowest_link(s, next);
    const auto cut = static_cast<std::size_t>(s.last_group - 1);
    times.forward_channel.push_back(chain.cut_forward[cut] / rate);
    times.backward_channel.push_back(chain.cut_backward[cut] / rate);
  }
  return times;
}

double workload(const PipelineTimes& times, int microbatches) {
  double most = 0;
  for (std::size_t s = 0; s < times.forward.size(); ++s)
    most = std::max(most, microbatches * (times.forward[s] + times.backward[s]) + times.all_reduce[s]);
  for (std::size_t c = 0; c < times.forward_channel.size(); ++c)
    most = std::max(most, microbatches * (times.forward_channel[c] + times.backward_channel[c]));
  return most;
}

}  // namespace sluice
