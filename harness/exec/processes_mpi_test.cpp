// The executor over processes: every member of the MPI job runs this same file, and what it checks
// is what that member sees. The programs are the ones that threads are tested with.
#include <cmath>
#include <cstring>
#include <iostream>

#include "harness/exec/executor_test_support.h"
#include "harness/exec/mpi.h"

namespace sluice {
namespace {

Team* job = nullptr;

// Letters travel as headers; with `padding` they carry so many bytes besides, in two blocks, the
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
  Message make_room(std::span<const std::byte> header,
                    std::vector<std::span<std::byte>>& parts) override {
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
std::optional<Execution> run_in_job(const Program& program,
                                    const std::vector<std::unique_ptr<Worker>>& workers,
                                    ExecuteOptions options = {}, std::size_t padding = 0) {
  const auto team = job->first(static_cast<int>(program.rank_count()));
  if (!team) return std::nullopt;
  LetterCodec codec(padding);
  const auto transport = team->transport(program, codec);
  options.team = team.get();
  Execution execution = execute(program, *transport, workers, options);
  for (const auto& parcel : codec.received)
    if (padding > 0) {
      EXPECT_EQ(parcel->first.back(), static_cast<std::byte>(parcel->letter.micro.value));
      EXPECT_EQ(parcel->second.back(), static_cast<std::byte>(parcel->letter.iteration));
    }
  return execution;
}

void expect_own_program(const Program& program, const std::unique_ptr<Worker>& worker,
                        int iterations) {
  const FakeWorker& mine = fake(worker);
  EXPECT_EQ(mine.errors, std::vector<std::string>{});
  std::vector<std::string> expected, seen;
  for (int k = 0; k < iterations; ++k)
    for (const Instruction& i : program.ranks[static_cast<std::size_t>(job->rank())])
      if (i.what != Do::reduce_gradients) expected.push_back(to_text(i));
  for (const Instruction& i : mine.log) seen.push_back(to_text(i));
  EXPECT_EQ(seen, expected);
}

void expect_runs(const Program& program, int iterations, std::size_t padding, ElementType type) {
  FakeOptions options;
  options.type = type;
  const auto workers = fakes(program, options);
  const auto execution =
      run_in_job(program, workers, {.iterations = iterations, .timeout = Seconds(60)}, padding);
  if (!execution) return;
  expect_own_program(program, workers[static_cast<std::size_t>(job->rank())], iterations);
  EXPECT_EQ(execution->update_end.size(), static_cast<std::size_t>(iterations * program.updates));
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
      if (is_compute(i.what) || i.what == Do::optimizer_step) ++events;
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
    v = static_cast<T>(std::ldexp(1.0 + static_cast<double>(random()) / 4294967296.0,
                                  static_cast<int>(random() % 60)));
  return values;
}

Program replicas(int ranks) {
  Program program;
  program.ranks.resize(static_cast<std::size_t>(ranks));
  program.placement.stages.resize(2);
  for (int r = 0; r < ranks; ++r) program.placement.stages[0].emplace_back(r);
  for (int r = ranks - 1; r >= 0; --r) program.placement.stages[1].emplace_back(r);
  return program;
}

template <class T>
void expect_same_sum_as_threads(std::size_t count, int group) {
  const int n = job->size(), me = group == 0 ? job->rank() : n - 1 - job->rank();
  const auto type = sizeof(T) == 4 ? ElementType::float32 : ElementType::float64;
  const Program program = replicas(n);
  std::vector<std::vector<T>> all;
  for (int r = 0; r < n; ++r) all.push_back(awkward<T>(count, r));
  std::vector<T> mine = all[static_cast<std::size_t>(me)];
  {
    LetterCodec codec;
    const auto transport = job->transport(program, codec);
    transport->all_reduce(group, me, mine.data(), count, type);
  }
  const auto threads = make_thread_transport(program);
  std::vector<std::thread> ranks;
  for (int r = 0; r < n; ++r)
    ranks.emplace_back([&, r] {
      threads->all_reduce(group, r, all[static_cast<std::size_t>(r)].data(), count, type);
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(std::memcmp(mine.data(), all[0].data(), count * sizeof(T)), 0) << count;
}

TEST(Processes, all_reduce_gives_the_bits_that_threads_give) {
  for (const std::size_t count : {0, 1, 3, 1000, (1 << 20) + 77}) {
    expect_same_sum_as_threads<float>(count, 0);
    expect_same_sum_as_threads<double>(count, 1);
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
  EXPECT_THROW(run_in_job(program, workers, {.iterations = 50, .timeout = Seconds(60)}),
               RunStopped);
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
    for (int to = 0; to < n; ++to)
      job->send(to, std::vector<std::byte>(size, static_cast<std::byte>(me)));
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
  const auto team = sluice::join_mpi_job();
  sluice::job = team.get();
  // One report is enough, unless another member sees something else.
  if (team->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    struct Failures : testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& r) override {
        if (r.failed())
          std::cerr << "process " << sluice::job->rank() << ": " << r.summary() << "\n";
      }
    };
    listeners.Append(new Failures);
  }
  const int failed = RUN_ALL_TESTS();
  int any = 0;
  for (const std::string& other : team->all_gather(failed ? "x" : "")) any |= !other.empty();
  return any;
}
