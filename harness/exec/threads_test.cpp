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
  program.ranks.resize(static_cast<std::size_t>(ranks));
  program.channels = channels;
  return program;
}

Program one_group(int members) {
  Program program;
  program.ranks.resize(static_cast<std::size_t>(members));
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
      part.push_back(static_cast<T>(std::ldexp(
          std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 20))));
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
      on_threads(members, [&](int member) {
        transport->all_reduce(0, member, data[static_cast<std::size_t>(member)].data(), count,
                              TestFixture::kType);
      });
      for (const auto& part : data) EXPECT_EQ(part, expected);
    }
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
        if (value != static_cast<T>(4 * round * 10 + 6)) ++wrong[static_cast<std::size_t>(member)];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kMembers, 0));
}

TYPED_TEST(AllGather, GivesEveryMemberTheSlicesOfAllInTheirOrder) {
  using T = TypeParam;
  std::mt19937 random(6);
  for (const int members : {1, 2, 3, 5}) {
    const auto transport = make_thread_transport(one_group(members));
    for (const std::size_t count : {0u, 1u, 7u, 1025u}) {
      SCOPED_TRACE(testing::Message() << members << " members, " << count << " elements a slice");
      const auto slices = random_parts<T>(members, count, random);
      std::vector<T> expected;
      for (const auto& slice : slices) expected.insert(expected.end(), slice.begin(), slice.end());
      std::vector<std::vector<T>> data;
      for (int k = 0; k < members; ++k) {
        const auto& own = slices[static_cast<std::size_t>(k)];
        std::vector<T>& mine = data.emplace_back(expected.size(), std::nan(""));
        std::ranges::copy(own, mine.begin() + static_cast<std::ptrdiff_t>(count) * k);
      }
      on_threads(members, [&](int member) {
        transport->all_gather(0, member, data[static_cast<std::size_t>(member)].data(), count,
                              TestFixture::kType);
      });
      for (const auto& mine : data) EXPECT_EQ(mine, expected);
    }
  }
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
        transport->reduce_scatter(0, member, data[static_cast<std::size_t>(member)].data(), count,
                                  TestFixture::kType);
      });
      for (std::size_t k = 0; k < data.size(); ++k)
        for (std::size_t i = k * count; i < (k + 1) * count; ++i)
          ASSERT_EQ(data[k][i], expected[i]) << "element " << i;
    }
  }
}

TYPED_TEST(ReduceScatter, FollowedByAnAllGatherIsAnAllReduceManyTimesInARow) {
  using T = TypeParam;
  constexpr int kMembers = 3, kRounds = 1000;
  constexpr std::size_t kCount = 5;
  const auto transport = make_thread_transport(one_group(kMembers));
  std::vector<int> wrong(kMembers, 0);
  on_threads(kMembers, [&](int member) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<T> data(kCount * kMembers, static_cast<T>(round * 10 + member));
      transport->reduce_scatter(0, member, data.data(), kCount, TestFixture::kType);
      transport->all_gather(0, member, data.data(), kCount, TestFixture::kType);
      for (const T value : data)
        if (value != static_cast<T>(3 * round * 10 + 3)) ++wrong[static_cast<std::size_t>(member)];
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
  EXPECT_TRUE(abort_wakes(*transport,
                          [&] { transport->all_reduce(0, 0, &data, 1, ElementType::float64); }));
}

TEST(ThreadTransport, AbortWakesAnAllGatherAndAReduceScatterThatMissAMember) {
  std::vector<double> data(3, 1);
  for (const bool gather : {true, false}) {
    const auto transport = make_thread_transport(one_group(3));
    EXPECT_TRUE(abort_wakes(*transport, [&] {
      if (gather) {
        transport->all_gather(0, 0, data.data(), 1, ElementType::float64);
      } else {
        transport->reduce_scatter(0, 0, data.data(), 1, ElementType::float64);
      }
    }));
  }
}

TEST(ThreadTransport, AfterAnAbortNothingBlocks) {
  const auto transport = make_thread_transport(channels_only(2, {{Rank(0), Rank(1), 2}}));
  transport->abort();
  EXPECT_THROW(transport->receive(0), TransportAborted);
}

}  // namespace
}  // namespace sluice
