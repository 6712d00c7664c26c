// StageWeights of a sharded stage: members without threads, their collectives done here by hand,
// against one StageWeights that has everything.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "harness/exec/torch/stage/stage_weights.h"

namespace sluice {
namespace {

// 3 * 5 + 7 + 1 = 23 elements: no multiple of 2, 3 or 4.
const std::vector<ParameterSpec> kParameters{
    {.name = "a", .shape = {3, 5}}, {.name = "b", .shape = {7}}, {.name = "c", .shape = {1}}};
constexpr std::int64_t kSize = 23;
constexpr Bytes kBytes(8);  // of one element

std::vector<at::Tensor> random_tensors(int seed) {
  std::vector<at::Tensor> result;
  for (const ParameterSpec& p : kParameters) {
    at::Tensor t = at::empty(p.shape, at::kDouble);
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data_ptr<double>()[i] = std::sin(static_cast<double>(seed * 100 + i) + 0.1 * static_cast<double>(p.shape[0]));
    result.push_back(t);
  }
  return result;
}

Instruction op(Opcode opcode, std::int32_t version) {
  Instruction i{opcode};
  i.stage = StageId(4);
  i.micro = Micro(2);
  i.version = version;
  return i;
}

class Members {
 public:
  Members(std::size_t n, bool keeps_whole, const OptimizerSpec& optimizer) {
    install_counting_allocator();
    const c10::InferenceMode no_autograd;
    for (std::size_t k = 0; k < n; ++k) {
      counters.push_back(new_counters());
      all.push_back(std::make_unique<StageWeights>(kParameters, random_tensors(0), optimizer,
                                                   at::TensorOptions().dtype(at::kDouble), counters.back(),
                                                   Share{.members = n, .member = k, .keeps_whole = keeps_whole}));
      all.back()->follow({}, StageId(4));
      counters.back()->reset_peak();
    }
  }

  void begin(int reads) {
    for (auto& m : all) m->begin({.versions = {{0, reads}}, .predictions = {}});
  }
  void gather() {
    std::vector<at::Tensor> slices, buffers;
    for (auto& m : all) slices.push_back(m->newest_flat().clone());
    for (auto& m : all) m->begin_gather().copy_(at::cat(slices));
  }
  // Member k adds gradients of seed first_seed + k, in its turn.
  void accumulate(int first_seed) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      const auto own = random_tensors(first_seed + static_cast<int>(k));
      const auto views = all[k]->gradients();
      for (std::size_t i = 0; i < own.size(); ++i) views[i].add_(own[i]);
    }
  }
  void reduce_scatter() {
    at::Tensor sum;
    for (auto& m : all) {
      const at::Tensor& g = m->begin_reduce_scatter();
      sum = sum.defined() ? sum + g : g.clone();
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::int64_t n = all[k]->newest_flat().numel();
      const auto first = static_cast<std::int64_t>(k) * n;
      all[k]->add_reduced(sum.narrow(0, first, n));
      all[k]->end_reduce_scatter();
    }
  }
  void step(double rate) {
    for (auto& m : all) m->step(rate);
  }
  at::Tensor newest() const {
    std::vector<at::Tensor> slices;
    for (auto& m : all) slices.push_back(m->newest_flat());
    return at::cat(slices);
  }

  std::vector<MemoryCounters*> counters;
  std::vector<std::unique_ptr<StageWeights>> all;
};

std::vector<OptimizerSpec> optimizers() {
  using Kind = OptimizerSpec::Kind;
  return {{.kind = Kind::sgd, .weight_decay = 0.01},
          {.kind = Kind::sgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
          {.kind = Kind::adam, .weight_decay = 0.01},
          {.kind = Kind::adamw, .weight_decay = 0.01},
          {.kind = Kind::rmsprop}};
}

// Bits, not rounding: a slice of an elementwise rule is the rule of the slice.
TEST(ShardedWeights, AreTheSlicesOfWhatOneHolderOfAllComesTo) {
  const c10::InferenceMode no_autograd;
  for (const OptimizerSpec& optimizer : optimizers())
    for (const std::size_t members : {2u, 3u, 4u})
      for (const bool keeps_whole : {false, true}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(optimizer.kind) << ", " << members
                                        << " members, whole weights " << keeps_whole);
        Members sharded(members, keeps_whole, optimizer);
        Members one(1, false, optimizer);
        const std::int64_t slice =
            (kSize + static_cast<std::int64_t>(members) - 1) / static_cast<std::int64_t>(members);
        for (int u = 0; u < 4; ++u) {
          sharded.begin(2);
          one.begin(1);
          if (!keeps_whole || u == 0) sharded.gather();
          for (auto& m : sharded.all) {
            const auto read = m->read(op(Opcode::forward, 0), 0);
            const auto expected = one.all[0]->read(op(Opcode::forward, 0), 0);
            for (std::size_t i = 0; i < kParameters.size(); ++i)
              EXPECT_TRUE(at::equal(read[i], expected[i])) << kParameters[i].name;
            m->used(op(Opcode::forward, 0));
            m->used(op(Opcode::forward, 0));
          }
          one.all[0]->used(op(Opcode::forward, 0));
          if (!keeps_whole)
            for (auto& m : sharded.all) m->free_gathered();
          sharded.accumulate(10 * u);
          sharded.reduce_scatter();
          // The one adds up in the order of the members, as the collective does.
          for (std::size_t k = 0; k < members; ++k) {
            const auto part = random_tensors(10 * u + static_cast<int>(k));
            const auto views = one.all[0]->gradients();
            for (std::size_t i = 0; i < part.size(); ++i) views[i].add_(part[i]);
          }
          for (auto& m : sharded.all) EXPECT_EQ(m->gradients_flat().numel(), slice);
          sharded.step(0.1);
          one.step(0.1);
          if (keeps_whole) sharded.gather();
          const at::Tensor all = sharded.newest();
          ASSERT_EQ(all.numel(), slice * static_cast<std::int64_t>(members));
          EXPECT_TRUE(at::equal(all.narrow(0, 0, kSize), one.newest()));
          EXPECT_EQ(all.narrow(0, kSize, all.numel() - kSize).abs().sum().item<double>(), 0) << "padding";
        }
      }
}

TEST(ShardedWeights, SeveralReduceScattersOfAnUpdateAddUp) {
  const c10::InferenceMode no_autograd;
  Members m(2, false, {});
  for (int update = 0; update < 2; ++update) {  // the second shows that a step clears the sum
    m.begin(0);
    at::Tensor expected;
    for (const int seed : {1, 3, 5}) {
      m.accumulate(seed);
      m.reduce_scatter();
      for (int k = 0; k < 2; ++k) {
        std::vector<at::Tensor> flat;
        for (const at::Tensor& t : random_tensors(seed + k)) flat.push_back(t.flatten());
        expected = expected.defined() ? expected + at::cat(flat) : at::cat(flat);
      }
    }
    const at::Tensor sum = at::cat({m.all[0]->gradients_flat(), m.all[1]->gradients_flat()}).narrow(0, 0, kSize);
    EXPECT_TRUE(at::allclose(sum, expected, 1e-14, 1e-14));
    m.step(0.1);
  }
}

std::string what_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

TEST(ShardedWeights, AreNotReadableBeforeAGatherAfterAFreeOrAfterAStep) {
  const c10::InferenceMode no_autograd;
  Members m(2, false, {});
  m.begin(4);
  const auto read = [&](std::int32_t version) {
    return what_of([&] { m.all[0]->read(op(Opcode::input_gradient, version), 0); });
  };
  const std::string missing = "4I2 reads version 0 of the weights of stage 4, which are not gathered";
  EXPECT_EQ(read(0), missing);
  m.gather();
  EXPECT_EQ(read(0), "");
  EXPECT_EQ(read(1), "4I2 reads version 1 of the weights of stage 4, but gathered is version 0");
  for (auto& w : m.all) w->free_gathered();
  EXPECT_EQ(read(0), missing);
  m.gather();
  m.accumulate(1);
  m.reduce_scatter();
  for (int k = 0; k < 4; ++k) m.all[0]->used(op(Opcode::input_gradient, 0));
  m.step(0.1);
  EXPECT_EQ(read(0), missing) << "a step makes what is gathered stale";
  m.gather();
  EXPECT_EQ(read(1), "");
}

TEST(ShardedWeights, OfZeRO1AreReadableUntilTheStepAndAgainAfterTheGather) {
  const c10::InferenceMode no_autograd;
  Members m(2, true, {});
  m.begin(0);
  const auto read = [&](std::int32_t version) {
    return what_of([&] { m.all[1]->read(op(Opcode::forward, version), 0); });
  };
  EXPECT_EQ(read(0), "");
  m.accumulate(1);
  m.reduce_scatter();
  m.step(0.1);
  EXPECT_EQ(read(1), "4F2 reads version 1 of the weights of stage 4, which are not gathered");
  m.gather();
  EXPECT_EQ(read(1), "");
}

// Two members of 23 elements: slices of 12, whole vectors of 24.
TEST(ShardedWeights, CountTheSliceAlwaysAndTheWholeWhileItIsThere) {
  const c10::InferenceMode no_autograd;
  const OptimizerSpec adam{.kind = OptimizerSpec::Kind::adam};
  Members m(2, false, adam);
  const auto peak = [&] {
    const MemoryByKind p = m.counters[0]->peak();
    m.counters[0]->reset_peak();
    return p;
  };
  m.begin(1);
  MemoryByKind p = peak();
  EXPECT_EQ(p.weights, 12 * kBytes);
  EXPECT_EQ(p.gradients, 12 * kBytes);
  EXPECT_EQ(p.optimizer, 2 * 12 * kBytes);
  m.gather();
  EXPECT_EQ(peak().weights, (12 + 24) * kBytes);
  for (auto& w : m.all) w->free_gathered();
  m.counters[0]->reset_peak();
  m.accumulate(1);
  p = peak();
  EXPECT_EQ(p.weights, 12 * kBytes);
  EXPECT_EQ(p.gradients, (12 + 24) * kBytes);
  m.reduce_scatter();
  m.counters[0]->reset_peak();
  EXPECT_EQ(peak().gradients, 12 * kBytes);

  Members whole(2, true, adam);
  p = whole.counters[1]->peak();
  EXPECT_EQ(p.weights, 24 * kBytes);
  EXPECT_EQ(p.gradients, 12 * kBytes);
  EXPECT_EQ(p.optimizer, 2 * 12 * kBytes);
}

TEST(ShardedWeights, TakeTheirSliceOfACheckpointOfTheWhole) {
  const c10::InferenceMode no_autograd;
  const OptimizerSpec adam{.kind = OptimizerSpec::Kind::adam};
  const auto update = [](Members& m, int seed) {
    m.begin(0);
    for (std::size_t k = 0; k < m.all.size(); ++k) {
      // The same gradient however many members there are: the first makes all of it.
      const auto views = m.all[k]->gradients();
      const auto all = random_tensors(seed);
      for (std::size_t i = 0; k == 0 && i < all.size(); ++i) views[i].add_(all[i]);
    }
    if (m.all.size() > 1) m.reduce_scatter();
    m.step(0.1);
  };
  Members one(1, false, adam);
  update(one, 1);
  update(one, 2);
  for (const bool keeps_whole : {false, true}) {
    Members sharded(3, keeps_whole, adam), straight(1, false, adam);
    for (auto& m : sharded.all) m->restore(one.all[0]->state());
    straight.all[0]->restore(one.all[0]->state());
    if (keeps_whole) {
      sharded.begin(1);
      EXPECT_TRUE(at::equal(sharded.all[2]->read(op(Opcode::forward, 0), 0)[1], one.all[0]->views_of(one.newest())[1]));
    }
    update(sharded, 3);
    update(straight, 3);
    EXPECT_TRUE(at::equal(sharded.newest().narrow(0, 0, kSize), straight.newest()));
  }
}

}  // namespace
}  // namespace sluice
