#include "harness/exec/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <random>
#include <thread>
#include <vector>

namespace sluice {
namespace {

// Only what a transport looks at: channels and replicas.
Program channels_only(int ranks, const std::vector<Channel>& channels) {
  Program program;
  program.ranks.resize(ranks);
  program.channels = channels;
  return program;
}

Program one_group(int members) {
  Program program;
  program.ranks.resize(members);
  std::vector<Rank> ranks;
  for (int r = 0; r < members; ++r) ranks.emplace_back(r);
  program.placement.stages = {ranks};
  return program;
}

Message message_of(int value) { return {std::make_shared<int>(value)}; }
int value_of(const Message& message) { return *static_cast<int*>(message.payload.get()); }

// Runs one thread a member and joins them all.
void on_threads(int members, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int k = 0; k < members; ++k) threads.emplace_back(work, k);
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadTransport, MessagesOfAChannelArriveOnceInOrderWithTheirContent) {
  // The ring holds 3 messages, so both ends wait for each other all the time.
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), 3}}));
  constexpr int kMessages = 50000;
  int wrong = 0;
  on_threads(2, [&](int rank) {
    for (int i = 0; i < kMessages; ++i) {
      if (rank == 0) {
        transport->send(0, message_of(i));
      } else if (value_of(transport->receive(0)) != i) {
        ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadTransport, ReceivingGivesUpTheRingsShareOfTheMessage) {
  // A ring that kept a handle would keep a tensor's memory alive, and its owner would copy it.
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), 2}}));
  transport->send(0, message_of(7));
  const Message message = transport->receive(0);
  EXPECT_EQ(message.payload.use_count(), 1);
}

TEST(ThreadTransport, ManyMoreRanksThanCoresPassATokenAroundARing) {
  constexpr int kRanks = 48, kRounds = 300;
  std::vector<Channel> channels;
  for (int r = 0; r < kRanks; ++r) channels.push_back({Rank(r), Rank((r + 1) % kRanks), 1});
  const auto transport = make_thread_transport(channels_only(kRanks, channels));
  int last = -1;
  on_threads(kRanks, [&](int rank) {
    const int from = (rank + kRanks - 1) % kRanks;
    for (int round = 0; round < kRounds; ++round) {
      if (rank == 0) {
        transport->send(0, message_of(round * kRanks));
        last = value_of(transport->receive(from));
      } else {
        transport->send(rank, message_of(value_of(transport->receive(from)) + 1));
      }
    }
  });
  EXPECT_EQ(last, (kRounds - 1) * kRanks + kRanks - 1);
}

TEST(ThreadTransport, AWholeRunsMessagesFitSoThatASendNeverWaits) {
  // One thread only: a send that waited for the receiver would never come back.
  constexpr int kMessages = 5000;
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), kMessages}}));
  for (int i = 0; i < kMessages; ++i) transport->send(0, message_of(i));
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(value_of(transport->receive(0)), i);
}

template <class T>
class AllReduce : public testing::Test {
 public:
  static constexpr ElementType kType = sizeof(T) == 4 ? ElementType::float32 : ElementType::float64;
};
using ElementTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(AllReduce, ElementTypes);
template <class T>
class AllGather : public AllReduce<T> {};
TYPED_TEST_SUITE(AllGather, ElementTypes);
template <class T>
class ReduceScatter : public AllReduce<T> {};
TYPED_TEST_SUITE(ReduceScatter, ElementTypes);

// One array a member. Magnitudes far apart, so that another order of adding gives other bits.
template <class T>
std::vector<std::vector<T>> random_parts(int members, std::size_t count, std::mt19937& random) {
  std::vector<std::vector<T>> parts(static_cast<std::size_t>(members));
  for (auto& part : parts)
    for (std::size_t i = 0; i < count; ++i)
      part.push_back(static_cast<T>(
          std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 20))));
  return parts;
}

template <class T>
std::vector<T> sum_in_order(const std::vector<std::vector<T>>& parts) {
  std::vector<T> sum = parts[0];
  for (std::size_t k = 1; k < parts.size(); ++k)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += parts[k][i];
  return sum;
}

TYPED_TEST(AllReduce, SumsInMemberOrderWithTheSameBitsOnAllMembers) {
  using T = TypeParam;
  std::mt19937 random(5);
  for (const int members : {1, 2, 3, 5, 8}) {
    const auto transport = make_thread_transport(one_group(members));
    // 0, fewer elements than members, the block size and its neighbours, many blocks.
    for (const std::size_t count : {0u, 1u, 2u, 7u, 1023u, 1024u, 1025u, 100003u}) {
      SCOPED_TRACE(testing::Message() << members << " members, " << count << " elements");
      auto data = random_parts<T>(members, count, random);
      const std::vector<T> expected = sum_in_order(data);
      on_threads(members,
                 [&](int member) { transport->all_reduce(0, member, data[member].data(), count, TestFixture::kType); });
      for (const auto& part : data) EXPECT_EQ(part, expected);
    }
  }
}

// Member k sends (k + 2 j) mod 4 elements to member j, which say who sent them to whom.
TYPED_TEST(AllReduce, AnAllToAllGivesEveryMemberWhatTheOthersHaveForIt) {
  using T = TypeParam;
  for (const int members : {1, 2, 3, 5}) {
    const auto transport = make_thread_transport(one_group(members));
    const auto count = [](int from, int to) { return static_cast<std::size_t>((from + 2 * to) % 4); };
    const auto part = [&](int from, int to) { return std::vector<T>(count(from, to), static_cast<T>(10 * from + to)); };
    const auto joined = [](std::vector<T>& all, const std::vector<T>& more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    std::vector<int> wrong(static_cast<std::size_t>(members), 0);
    on_threads(members, [&](int member) {
      std::vector<T> sent, expected;
      std::vector<std::size_t> to, from;
      for (int k = 0; k < members; ++k) {
        joined(sent, part(member, k)), joined(expected, part(k, member));
        to.push_back(count(member, k)), from.push_back(count(k, member));
      }
      for (int round = 0; round < 100; ++round) {
        std::vector<T> received(expected.size());
        transport->all_to_all(0, member, sent.data(), to, received.data(), from, TestFixture::kType);
        if (received != expected) ++wrong[static_cast<std::size_t>(member)];
      }
    });
    EXPECT_EQ(wrong, std::vector<int>(wrong.size(), 0));
  }
}

TYPED_TEST(AllReduce, ManyRoundsInARowDoNotMix) {
  using T = TypeParam;
  constexpr int kMembers = 4, kRounds = 2000;
  const auto transport = make_thread_transport(one_group(kMembers));
  std::vector<int> wrong(kMembers, 0);
  on_threads(kMembers, [&](int member) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<T> data(9, static_cast<T>(round * 10 + member));
      transport->all_reduce(0, member, data.data(), data.size(), TestFixture::kType);
      for (const T value : data)
        if (value != static_cast<T>(4 * round * 10 + 6)) ++wrong[member];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kMembers, 0));
}

TYPED_TEST(AllGather, GivesEveryMemberTheSlicesOfAllInTheirOrder) {
  using T = TypeParam;
  std::mt19937 random(6);
  for (const int members : {1, 2, 3, 5}) {
    const auto transport = make_thread_transport(one_group(members));
    std::int64_t version = 0;  // all have read the last one when there is a new one
    for (const std::size_t count : {0u, 1u, 7u, 1025u}) {
      SCOPED_TRACE(testing::Message() << members << " members, " << count << " elements a slice");
      ++version;
      const auto slices = random_parts<T>(members, count, random);
      std::vector<T> expected;
      for (const auto& slice : slices) expected.insert(expected.end(), slice.begin(), slice.end());
      std::vector<std::vector<T>> data;
      for (int k = 0; k < members; ++k) {
        const auto& own = slices[k];
        std::vector<T>& mine = data.emplace_back(expected.size(), std::nan(""));
        std::ranges::copy(own, mine.begin() + static_cast<std::ptrdiff_t>(count) * k);
      }
      on_threads(members, [&](int member) {
        transport->all_gather(0, member, {slices[member].data(), version}, data[member].data(), count,
                              TestFixture::kType);
      });
      for (const auto& mine : data) EXPECT_EQ(mine, expected);
    }
  }
}

TYPED_TEST(AllGather, OfAShardThatHasNotChangedWaitsForNobody) {
  using T = TypeParam;
  const auto transport = make_thread_transport(one_group(2));
  const std::vector<T> shards[] = {{1, 2, 3}, {4, 5, 6}};
  const std::vector<T> all{1, 2, 3, 4, 5, 6};
  const auto gather = [&](std::size_t member) {
    std::vector<T> data(6);
    std::ranges::copy(shards[member], data.begin() + static_cast<std::ptrdiff_t>(3 * member));
    transport->all_gather(0, static_cast<int>(member), {shards[member].data(), 7}, data.data(), 3, TestFixture::kType);
    return data;
  };
  on_threads(2, [&](int member) { gather(static_cast<std::size_t>(member)); });
  // On one thread: a gather that waited for the other member would never come back.
  for (int k = 0; k < 3; ++k) EXPECT_EQ(gather(1), all);
  EXPECT_EQ(gather(0), all);
}

// As a sharded stage does: gathers of a version, a reduce-scatter, a step that changes the shard.
TYPED_TEST(AllGather, SeesEveryVersionOfTheShardsThatTheirOwnersChangeInPlace) {
  using T = TypeParam;
  constexpr int kMembers = 3, kSteps = 3000;
  const auto transport = make_thread_transport(one_group(kMembers));
  std::vector<int> wrong(kMembers, 0);
  std::vector<std::vector<T>> shards(kMembers, std::vector<T>(5));  // until all have ended
  on_threads(kMembers, [&](int member) {
    std::vector<T> gradient(5 * kMembers), data(5 * kMembers);
    std::vector<T>& shard = shards[member];
    for (int step = 0; step < kSteps; ++step) {
      shard.assign(5, static_cast<T>(10 * step + member));
      for (int again = 0; again < 1 + step % 3; ++again) {
        data.assign(data.size(), -1);
        std::ranges::copy(shard, data.begin() + 5 * member);
        transport->all_gather(0, member, {shard.data(), step}, data.data(), 5, TestFixture::kType);
        for (std::size_t i = 0; i < data.size(); ++i) {
          const int sender = static_cast<int>(i) / 5;
          if (data[i] != static_cast<T>(10 * step + sender)) ++wrong[member];
        }
      }
      if (step % 2 == 0) {
        ASSERT_TRUE(transport->post_reduce_scatter(0, member, gradient.data(), 5, TestFixture::kType));
        ASSERT_NE(transport->take_reduced(0, member, 0), nullptr);
      } else {
        transport->reduce_scatter(0, member, gradient.data(), 5, TestFixture::kType);
      }
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kMembers, 0));
}

TYPED_TEST(ReduceScatter, LeavesEveryMemberTheSumOfItsSliceAddedInMemberOrder) {
  using T = TypeParam;
  std::mt19937 random(7);
  for (const int members : {1, 2, 3, 5}) {
    const auto transport = make_thread_transport(one_group(members));
    for (const std::size_t count : {0u, 1u, 7u, 1023u, 1025u}) {
      SCOPED_TRACE(testing::Message() << members << " members, " << count << " elements a slice");
      auto data = random_parts<T>(members, count * static_cast<std::size_t>(members), random);
      const std::vector<T> expected = sum_in_order(data);
      on_threads(members, [&](int member) {
        transport->reduce_scatter(0, member, data[member].data(), count, TestFixture::kType);
      });
      for (std::size_t k = 0; k < data.size(); ++k)
        for (std::size_t i = k * count; i < (k + 1) * count; ++i) ASSERT_EQ(data[k][i], expected[i]) << "element " << i;
    }
  }
}

TYPED_TEST(ReduceScatter, PostedSumsComeInTheirOrderHoweverFarAMemberRunsAhead) {
  using T = TypeParam;
  constexpr int kMembers = 3, kRounds = 4000;
  constexpr std::size_t kCount = 7;
  const auto transport = make_thread_transport(one_group(kMembers));
  std::mt19937 random(8);
  std::vector<std::vector<T>> expected;
  std::vector<std::vector<std::vector<T>>> rounds;
  for (int k = 0; k < 50; ++k) {
    rounds.push_back(random_parts<T>(kMembers, kCount * kMembers, random));
    expected.push_back(sum_in_order(rounds.back()));
  }
  std::vector<int> wrong(kMembers, 0), taken(kMembers, 0);
  on_threads(kMembers, [&](int member) {
    const auto m = static_cast<std::size_t>(member);
    std::mt19937 own(static_cast<unsigned>(member));
    const auto take = [&](int left) {
      while (const void* sum = transport->take_reduced(0, member, left)) {
        const auto& all = expected[static_cast<std::size_t>(taken[m]++) % expected.size()];
        if (!std::equal(all.begin() + static_cast<std::ptrdiff_t>(m * kCount),
                        all.begin() + static_cast<std::ptrdiff_t>((m + 1) * kCount), static_cast<const T*>(sum)))
          ++wrong[m];
      }
    };
    std::vector<T> data;
    for (int round = 0; round < kRounds; ++round) {
      take(static_cast<int>(own() % (Transport::kPosted + 1)));
      data = rounds[static_cast<std::size_t>(round) % rounds.size()][m];
      ASSERT_TRUE(transport->post_reduce_scatter(0, member, data.data(), kCount, TestFixture::kType));
      data.assign(data.size(), -1);  // it is the caller's again
    }
    take(0);
  });
  EXPECT_EQ(wrong, std::vector<int>(kMembers, 0));
  EXPECT_EQ(taken, std::vector<int>(kMembers, kRounds));
}

TYPED_TEST(ReduceScatter, AMemberPostsAheadOfTheOthersAndTakesOnlyWhatMustBeTaken) {
  using T = TypeParam;
  const auto transport = make_thread_transport(one_group(2));
  std::vector<T> data(6, 1);
  // On one thread: nothing of this waits for the other member.
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(transport->take_reduced(0, 0, 3), nullptr);
    EXPECT_TRUE(transport->post_reduce_scatter(0, 0, data.data(), 3, TestFixture::kType));
  }
  EXPECT_THROW(transport->post_reduce_scatter(0, 0, data.data(), 3, TestFixture::kType), std::logic_error);
  EXPECT_EQ(transport->take_reduced(0, 1, 0), nullptr);
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(transport->post_reduce_scatter(0, 1, data.data(), 3, TestFixture::kType));
  int taken = 0;
  while (const void* sum = transport->take_reduced(0, 0, 1)) {
    EXPECT_EQ(static_cast<const T*>(sum)[2], 2);
    ++taken;
  }
  EXPECT_EQ(taken, 3);
}

TYPED_TEST(ReduceScatter, WhatIsLargeIsNotPosted) {
  const auto transport = make_thread_transport(one_group(2));
  std::vector<TypeParam> data(100'000);
  EXPECT_FALSE(transport->post_reduce_scatter(0, 0, data.data(), data.size() / 2, TestFixture::kType));
  EXPECT_EQ(transport->take_reduced(0, 0, 0), nullptr);
}

TYPED_TEST(ReduceScatter, FollowedByAnAllGatherIsAnAllReduceManyTimesInARow) {
  using T = TypeParam;
  constexpr int kMembers = 3, kRounds = 1000;
  constexpr std::size_t kCount = 5;
  const auto transport = make_thread_transport(one_group(kMembers));
  std::vector<int> wrong(kMembers, 0);
  std::vector<std::vector<T>> shards(kMembers, std::vector<T>(kCount));
  on_threads(kMembers, [&](int member) {
    std::vector<T>& own = shards[member];
    for (int round = 0; round < kRounds; ++round) {
      std::vector<T> data(kCount * kMembers, static_cast<T>(round * 10 + member));
      transport->reduce_scatter(0, member, data.data(), kCount, TestFixture::kType);
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(kCount) * member, kCount, own.begin());
      transport->all_gather(0, member, {own.data(), round}, data.data(), kCount, TestFixture::kType);
      for (const T value : data)
        if (value != static_cast<T>(3 * round * 10 + 3)) ++wrong[member];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kMembers, 0));
}

// Whether `blocked`, started on its own thread, ends with TransportAborted after abort().
bool abort_wakes(Transport& transport, const std::function<void()>& blocked) {
  std::future<bool> woken = std::async(std::launch::async, [&] {
    try {
      blocked();
    } catch (const TransportAborted&) {
      return true;
    }
    return false;
  });
  // Long enough to be asleep, not spinning.
  EXPECT_EQ(woken.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  transport.abort();
  return woken.get();
}

TEST(ThreadTransport, AbortWakesAReceiverThatSleeps) {
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), 1}}));
  EXPECT_TRUE(abort_wakes(*transport, [&] { transport->receive(0); }));
}

TEST(ThreadTransport, AbortWakesASenderIntoAFullRing) {
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), 2}}));
  EXPECT_TRUE(abort_wakes(*transport, [&] {
    for (int i = 0; i < 3; ++i) transport->send(0, message_of(i));
  }));
}

TEST(ThreadTransport, AbortWakesAnAllReduceThatMissesAMember) {
  const auto transport = make_thread_transport(one_group(3));
  double data = 1;
  EXPECT_TRUE(abort_wakes(*transport, [&] { transport->all_reduce(0, 0, &data, 1, ElementType::float64); }));
}

TEST(ThreadTransport, AbortWakesAnAllGatherAndAReduceScatterThatMissAMember) {
  std::vector<double> data(3, 1);
  for (const bool gather : {true, false}) {
    const auto transport = make_thread_transport(one_group(3));
    EXPECT_TRUE(abort_wakes(*transport, [&] {
      if (gather) {
        transport->all_gather(0, 0, {data.data(), 0}, data.data(), 1, ElementType::float64);
      } else {
        transport->reduce_scatter(0, 0, data.data(), 1, ElementType::float64);
      }
    }));
  }
}

TEST(ThreadTransport, AbortWakesWhoTakesASumThatMissesAMember) {
  const auto transport = make_thread_transport(one_group(2));
  const std::vector<double> data(2, 1);
  EXPECT_TRUE(transport->post_reduce_scatter(0, 0, data.data(), 1, ElementType::float64));
  EXPECT_TRUE(abort_wakes(*transport, [&] { transport->take_reduced(0, 0, 0); }));
}

TEST(ThreadTransport, AfterAnAbortNothingBlocks) {
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), 2}}));
  transport->abort();
  EXPECT_THROW(transport->receive(0), TransportAborted);
}

}  // namespace
}  // namespace sluice
