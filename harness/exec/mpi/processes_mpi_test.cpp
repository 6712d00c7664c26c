// The executor over processes: every member of the MPI job runs this same file, and what it checks
// is what that member sees. The programs are the ones that threads are tested with.
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>

#include "harness/exec/executor_test_support.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

ProcessGroup* job = nullptr;

// Letters travel as headers; with `padding` they carry that many further bytes, in two blocks, the
// first of which is checked by its receiver.
class LetterCodec : public MessageCodec {
 public:
  explicit LetterCodec(std::size_t padding = 0) : padding_(padding) {}

  Encoded encode(Message& message) override {
    Encoded encoded;
    encoded.header.resize(sizeof(Letter));
    const Letter letter = *static_cast<Letter*>(message.payload.get());
    std::memcpy(encoded.header.data(), &letter, sizeof letter);
    if (padding_ == 0) return encoded;
    auto parcel = std::make_shared<Parcel>(Parcel{letter, {}, {}});
    parcel->first.assign(padding_, static_cast<std::byte>(letter.micro.value));
    parcel->second.assign(padding_ / 3, static_cast<std::byte>(letter.iteration));
    encoded.parts = {parcel->first, parcel->second};
    message.payload = parcel;
    return encoded;
  }
  Message make_room(std::span<const std::byte> header, std::vector<std::span<std::byte>>& parts) override {
    auto parcel = std::make_shared<Parcel>();
    std::memcpy(static_cast<void*>(&parcel->letter), header.data(), sizeof(Letter));
    if (padding_ > 0) {
      parcel->first.resize(padding_);
      parcel->second.resize(padding_ / 3);
      parts = {parcel->first, parcel->second};
    }
    received.push_back(parcel);
    return {parcel};
  }

  struct Parcel {  // begins with its letter, which is what the fake workers read
    Letter letter;
    std::vector<std::byte> first, second;
  };
  std::vector<std::shared_ptr<Parcel>> received;

 private:
  std::size_t padding_;
};

// Runs it with the first members, as many as it has ranks; null result: this member has none.
std::optional<Execution> run_in_job(const Program& program, const std::vector<std::unique_ptr<Worker>>& workers,
                                    ExecuteOptions options = {}, std::size_t padding = 0) {
  const auto processes = job->first(static_cast<int>(program.rank_count()));
  if (!processes) return std::nullopt;
  LetterCodec codec(padding);
  const auto transport = processes->transport(program, codec);
  options.processes = processes.get();
  Execution execution = execute(program, *transport, workers, options);
  for (const auto& parcel : codec.received)
    if (padding > 0) {
      EXPECT_EQ(parcel->first.back(), static_cast<std::byte>(parcel->letter.micro.value));
      EXPECT_EQ(parcel->second.back(), static_cast<std::byte>(parcel->letter.iteration));
    }
  return execution;
}

void expect_own_program(const Program& program, const std::unique_ptr<Worker>& worker, int iterations) {
  const FakeWorker& mine = fake(worker);
  EXPECT_EQ(mine.errors, std::vector<std::string>{});
  std::vector<std::string> expected, seen;
  for (int k = 0; k < iterations; ++k)
    for (const Instruction& i : program.ranks[job->rank()])
      if (!is_collective(i.opcode) && i.opcode != Opcode::free_weights) expected.push_back(to_text(i));
  for (const Instruction& i : mine.log) seen.push_back(to_text(i));
  EXPECT_EQ(seen, expected);
}

void expect_runs(const Program& program, int iterations, std::size_t padding, ElementType type) {
  FakeOptions options;
  options.type = type;
  const auto workers = fakes(program, options);
  const auto execution = run_in_job(program, workers, {.iterations = iterations, .timeout = Seconds(60)}, padding);
  if (!execution) return;
  expect_own_program(program, workers[job->rank()], iterations);
  EXPECT_EQ(execution->update_end.size(), static_cast<std::size_t>(iterations) * program.updates);
  for (const double end : execution->update_end) EXPECT_GT(end, 0);
}

TEST(Processes, a_pipeline_runs_whole_and_in_order) {
  expect_runs(one_f_one_b(job->size(), 9), 5, 0, ElementType::float64);
}

TEST(Processes, contents_of_any_size_arrive_with_their_message) {
  for (const std::size_t bytes : {5, 5000, 300000, 5000000})
    expect_runs(one_f_one_b(job->size(), 4), 2, bytes, ElementType::float64);
}

TEST(Processes, replicas_add_up_their_gradients) {
  expect_runs(data_parallel(job->size(), 7), 3, 0, ElementType::float64);
  expect_runs(data_parallel(job->size(), 7), 3, 0, ElementType::float32);
}

TEST(Processes, random_programs_run_as_on_threads) {
  std::mt19937 random(20);
  for (int k = 0; k < 60; ++k) {
    const auto program = random_program(random);  // the same in every process
    if (!program || static_cast<int>(program->rank_count()) > job->size()) continue;
    expect_runs(*program, 2, k % 2 == 0 ? 0 : 20000, ElementType::float64);
  }
}

TEST(Processes, times_and_traces_of_all_ranks_are_the_same_everywhere) {
  const Program program = one_f_one_b(job->size(), 6);
  const auto workers = fakes(program);
  const auto execution = run_in_job(program, workers, {.iterations = 3, .traced_iteration = 1});
  ASSERT_TRUE(execution);
  ASSERT_EQ(execution->trace.ranks.size(), program.rank_count());
  for (std::size_t r = 0; r < program.rank_count(); ++r) {
    std::size_t events = 0;
    for (const Instruction& i : program.ranks[r])
      if (is_compute(i.opcode) || i.opcode == Opcode::optimizer_step) ++events;
    EXPECT_EQ(execution->trace.ranks[r].size(), events) << "rank " << r;
  }
  std::string numbers(sizeof(double) * execution->update_end.size(), '\0');
  std::memcpy(numbers.data(), execution->update_end.data(), numbers.size());
  for (const std::string& other : job->all_gather(numbers)) EXPECT_EQ(other, numbers);
}

// The whole point of adding in the members' order: values for which every other order differs.
template <class T>
std::vector<T> awkward(std::size_t count, int member) {
  std::mt19937 random(static_cast<unsigned>(member + 1));
  std::vector<T> values(count);
  for (T& v : values)
    v = static_cast<T>(std::ldexp(1.0 + static_cast<double>(random()) / 4294967296.0, static_cast<int>(random() % 60)));
  return values;
}

Program replicas(int ranks) {
  Program program;
  program.ranks.resize(ranks);
  program.placement.stages.resize(3);
  for (int r = 0; r < ranks; ++r) program.placement.stages[0].emplace_back(r);
  for (int r = ranks - 1; r >= 0; --r) program.placement.stages[1].emplace_back(r);
  program.placement.stages[2] = {Rank(ranks - 1), Rank(0)};  // of four not all
  return program;
}

enum class Collective { reduce, gather, scatter };

// own: the member's slice of what is gathered, which stays as it is while others may read it.
void collect(Transport& transport, Collective what, int group, int member, const void* own, void* data,
             std::size_t count, ElementType type) {
  if (what == Collective::reduce) transport.all_reduce(group, member, data, count, type);
  if (what == Collective::gather) transport.all_gather(group, member, {own}, data, count, type);
  if (what == Collective::scatter) transport.reduce_scatter(group, member, data, count, type);
}

// `count` elements, or slices of `count` a member. Twice in a row, so that the second finds what the first left.
template <class T>
void expect_same_as_threads(Collective what, std::size_t count, int group) {
  const Program program = replicas(job->size());
  const std::vector<Rank>& members = program.placement.stages[group];
  const auto type = sizeof(T) == 4 ? ElementType::float32 : ElementType::float64;
  const std::size_t n = members.size(), all = what == Collective::reduce ? count : n * count;
  std::vector<std::vector<T>> values;
  for (std::size_t k = 0; k < n; ++k) values.push_back(awkward<T>(all, static_cast<int>(k)));
  const auto me = static_cast<std::size_t>(std::ranges::find(members, Rank(job->rank())) - members.begin());
  std::vector<T> mine = me < n ? values[me] : std::vector<T>();
  const std::vector<std::vector<T>> before = values;
  const auto twice = [&](Transport& transport, std::size_t member, std::vector<T>& data) {
    const T* own = before[member].data() + (what == Collective::reduce ? 0 : member * count);
    for (int k = 0; k < 2; ++k)
      collect(transport, what, group, static_cast<int>(member), own, data.data(), count, type);
  };
  {
    LetterCodec codec;
    const auto transport = job->transport(program, codec);
    if (me < n) twice(*transport, me, mine);
  }
  if (me == n) return;
  const auto threads = make_thread_transport(program);
  std::vector<std::thread> ranks;
  for (std::size_t k = 0; k < n; ++k) ranks.emplace_back([&, k] { twice(*threads, k, values[k]); });
  for (std::thread& rank : ranks) rank.join();
  // After a reduce-scatter the other slices hold anything.
  const std::size_t first = what == Collective::scatter ? me * count : 0;
  const std::size_t size = what == Collective::scatter ? count : all;
  EXPECT_TRUE(std::equal(mine.begin() + static_cast<std::ptrdiff_t>(first),
                         mine.begin() + static_cast<std::ptrdiff_t>(first + size),
                         values[me].begin() + static_cast<std::ptrdiff_t>(first)))
      << count << " elements in group " << group;
}

TEST(Processes, collectives_give_the_bits_that_threads_give) {
  for (const Collective what : {Collective::reduce, Collective::gather, Collective::scatter})
    // A reduction goes in segments of 2^20 elements.
    for (const std::size_t count : {0, 1, 3, 1000, what == Collective::reduce ? (1 << 20) + 77 : 100003})
      for (const int group : {0, 1, 2}) {
        expect_same_as_threads<float>(what, count, group);
        expect_same_as_threads<double>(what, count, group);
      }
}

// Member k sends (k + 2 j) mod 4 times `unit` elements to member j.
TEST(Processes, an_all_to_all_gives_what_threads_give) {
  const Program program = replicas(job->size());
  for (const std::size_t unit : {1, 1000, 100003})
    for (const int group : {0, 1, 2}) {
      const std::vector<Rank>& members = program.placement.stages[group];
      const std::size_t n = members.size();
      const auto exchanged = [&](Transport& transport, std::size_t member) {
        const auto count = [&](std::size_t from, std::size_t to) { return (from + 2 * to) % 4 * unit; };
        std::vector<std::size_t> to, from;
        for (std::size_t k = 0; k < n; ++k) to.push_back(count(member, k)), from.push_back(count(k, member));
        const auto sent = awkward<double>(std::accumulate(to.begin(), to.end(), 0ul), static_cast<int>(member));
        std::vector<double> received(std::accumulate(from.begin(), from.end(), 0ul));
        for (int k = 0; k < 2; ++k)
          transport.all_to_all(group, static_cast<int>(member), sent.data(), to, received.data(), from,
                               ElementType::float64);
        return received;
      };
      const auto me = static_cast<std::size_t>(std::ranges::find(members, Rank(job->rank())) - members.begin());
      std::vector<double> mine;
      {
        LetterCodec codec;
        const auto transport = job->transport(program, codec);
        if (me < n) mine = exchanged(*transport, me);
      }
      if (me == n) continue;
      const auto threads = make_thread_transport(program);
      std::vector<std::vector<double>> all(n);
      std::vector<std::thread> ranks;
      for (std::size_t k = 0; k < n; ++k) ranks.emplace_back([&, k] { all[k] = exchanged(*threads, k); });
      for (std::thread& rank : ranks) rank.join();
      EXPECT_EQ(mine, all[me]) << unit << " elements in group " << group;
    }
}

TEST(Processes, sharded_programs_run_as_on_threads) {
  using Gather = Sharding::Gather;
  using Reduce = Sharding::Reduce;
  std::mt19937 random(29);  // the same in every process
  int gathers = 0, scatters = 0;
  unsigned trial = 0;
  for (const Gather gather : {Gather::once, Gather::on_visit, Gather::on_use, Gather::after_step})
    for (const Reduce reduce : {Reduce::per_microbatch, Reduce::accumulated})
      for (int k = 0; k < 6; ++trial) {
        const ExampleProblem copies = data_parallel_replicas(random_problem(trial, false), 2);
        if (static_cast<int>(copies.schedule.ranks.size()) > job->size()) continue;
        ++k;
        SCOPED_TRACE(testing::Message() << "trial " << trial);
        const Program program = lower(copies.schedule, copies.graph, copies.placement, WeightRule{},
                                      {.gather = gather,
                                       .reduce = reduce,
                                       .microbatches_per_reduction = static_cast<int>(random() % 3),
                                       .prefetch = static_cast<int>(random() % 4)});
        const auto workers = fakes(program);
        const auto execution = run_in_job(program, workers, {.iterations = 3, .timeout = Seconds(60)}, 20000 * k);
        if (!execution) continue;
        expect_own_program(program, workers[job->rank()], 3);
        const FakeWorker& mine = fake(workers[job->rank()]);
        const auto& own = program.ranks[job->rank()];
        EXPECT_EQ(mine.gathers, 3 * std::ranges::count(own, Opcode::gather_weights, &Instruction::opcode));
        EXPECT_EQ(mine.scatters, 3 * std::ranges::count(own, Opcode::reduce_scatter, &Instruction::opcode));
        gathers += mine.gathers;
        scatters += mine.scatters;
      }
  if (job->rank() < 2) {  // at least two ranks take part in each
    EXPECT_GT(gathers, 100);
    EXPECT_GT(scatters, 100);
  }
}

TEST(Processes, a_rank_that_throws_in_a_collective_frees_the_others) {
  const ExampleProblem copies =
      data_parallel_replicas({chain(1), one_stage_per_rank(1), example_1f1b(1, 2)}, job->size());
  const Program program = lower(copies.schedule, copies.graph, copies.placement, WeightRule{},
                                {.gather = Sharding::Gather::on_use, .reduce = Sharding::Reduce::per_microbatch});
  for (const Place place :
       {Place::begin_gather, Place::free_weights, Place::begin_reduce_scatter, Place::end_reduce_scatter}) {
    const auto workers = fakes(program, {.throws = place, .throwing_rank = job->size() - 1, .throwing_iteration = 1});
    try {
      run_in_job(program, workers, {.iterations = 50, .timeout = Seconds(60)});
      ADD_FAILURE() << "nothing thrown in " << to_text(place);
    } catch (const RunStopped& stopped) {
      EXPECT_EQ(stopped.kind, RunStopped::Kind::failed);
      EXPECT_EQ(stopped.rank, Rank(job->size() - 1));
      EXPECT_STREQ(stopped.what(), ("thrown in " + to_text(place)).c_str());
    }
    expect_runs(program, 3, 0, ElementType::float64);
  }
}

struct Failure {
  Place place;
  int rank;
  int iteration;
};

TEST(Processes, a_rank_that_throws_ends_the_run_everywhere_with_its_reason) {
  const int last = job->size() - 1;
  const Program program = one_f_one_b(job->size(), 8);
  for (const Failure f : {Failure{Place::begin_run, 0, 0},
                          {Place::compute, last, 2},
                          {Place::put, 0, 1},
                          {Place::take, last, 0},
                          {Place::step, 0, 3}}) {
    FakeOptions options;
    options.throws = f.place;
    options.throwing_rank = f.rank;
    options.throwing_iteration = f.iteration;
    const auto workers = fakes(program, options);
    try {
      run_in_job(program, workers, {.iterations = 50, .timeout = Seconds(60)}, 100000);
      ADD_FAILURE() << "nothing thrown in " << to_text(f.place);
    } catch (const RunStopped& stopped) {
      EXPECT_EQ(stopped.kind, RunStopped::Kind::failed);
      EXPECT_EQ(stopped.rank, Rank(f.rank));
      EXPECT_STREQ(stopped.what(), ("thrown in " + to_text(f.place)).c_str());
    }
    // What was under way has been taken back: the next run sees none of it.
    expect_runs(program, 3, 100000, ElementType::float64);
  }
}

TEST(Processes, a_rank_that_throws_in_a_reduction_frees_the_others) {
  const Program program = data_parallel(job->size(), job->size());
  FakeOptions options;
  options.throws = Place::gradients;
  options.throwing_rank = job->size() - 1;
  options.throwing_iteration = 1;
  const auto workers = fakes(program, options);
  EXPECT_THROW(run_in_job(program, workers, {.iterations = 50, .timeout = Seconds(60)}), RunStopped);
  expect_runs(program, 3, 0, ElementType::float64);
}

TEST(Processes, a_run_over_its_time_ends_everywhere) {
  const Program program = one_f_one_b(job->size(), 8);
  const auto workers = fakes(program);
  try {
    run_in_job(program, workers, {.iterations = 1'000'000, .timeout = Seconds(0.3)});
    ADD_FAILURE() << "it ended";
  } catch (const RunStopped& stopped) {
    EXPECT_EQ(stopped.kind, RunStopped::Kind::timed_out);
  }
}

TEST(Processes, one_process_that_is_interrupted_stops_all) {
  const Program program = one_f_one_b(job->size(), 8);
  const auto workers = fakes(program);
  const std::atomic<bool> here{job->rank() == job->size() - 1};
  try {
    run_in_job(program, workers, {.iterations = 1'000'000, .cancel = &here});
    ADD_FAILURE() << "it ended";
  } catch (const RunStopped& stopped) {
    EXPECT_EQ(stopped.kind, RunStopped::Kind::cancelled);
  }
}

TEST(Processes, a_divergence_is_the_result_of_all) {
  const Program program = one_f_one_b(job->size(), 4);
  FakeOptions options;
  options.throws = Place::compute;
  options.throwing_rank = job->size() - 1;
  options.throwing_iteration = 3;
  options.diverges = 3;
  const auto workers = fakes(program, options);
  const auto execution = run_in_job(program, workers, {.iterations = 10, .timeout = Seconds(60)});
  ASSERT_TRUE(execution && execution->diverged);
  EXPECT_EQ(*execution->diverged, 3);
}

TEST(Processes, members_send_to_one_another_before_they_receive) {
  const int n = job->size(), me = job->rank();
  for (const std::size_t size : {0, 10, 3'000'000}) {
    for (int to = 0; to < n; ++to) job->send(to, std::vector<std::byte>(size, static_cast<std::byte>(me)));
    for (int from = 0; from < n; ++from) {
      const std::vector<std::byte> got = job->receive(from);
      EXPECT_EQ(got, std::vector<std::byte>(size, static_cast<std::byte>(from)));
    }
  }
}

TEST(Processes, every_member_hears_what_the_others_say) {
  const auto all = job->all_gather(std::string(static_cast<std::size_t>(job->rank()) * 1000, 'x'));
  ASSERT_EQ(static_cast<int>(all.size()), job->size());
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r].size(), r * 1000);
  EXPECT_EQ(job->broadcast(job->rank() == 1 ? "one" : "other", 1), "one");
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto processes = sluice::join_mpi_job();
  sluice::job = processes.get();
  // One report is enough, unless another member sees something else.
  if (processes->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    struct Failures : testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& r) override {
        if (r.failed()) std::cerr << "process " << sluice::job->rank() << ": " << r.summary() << "\n";
      }
    };
    listeners.Append(new Failures);
  }
  const int failed = RUN_ALL_TESTS();
  int any = 0;
  for (const std::string& other : processes->all_gather(failed ? "x" : "")) any |= !other.empty();
  return any;
}
