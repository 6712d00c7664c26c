// Schedules and plans as a user sees them: several systems at once, weight versions, PyTorch's tables out and in.
#include <algorithm>
#include <cmath>

#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

TEST_F(Cli, SeveralSystemsAreComparedForTheSameWork) {
  const Json all = document(
      {"schedule", "-s", "gpipe,interleaved_1f1b,single_device,data_parallel", "-n", "4", "-m", "8", "--json"});
  ASSERT_EQ(all.size(), 4u);
  std::map<std::string, Json> by;
  for (const Json& one : all) by[one["system"].get<std::string>()] = one;
  // A stage of two on a rank takes half of what one alone takes; the whole model, four times.
  EXPECT_EQ(by["gpipe"]["costs"]["F"], 1);
  EXPECT_EQ(by["interleaved_1f1b"]["costs"]["F"], 0.5);
  EXPECT_EQ(by["single_device"]["costs"]["F"], 4);
  EXPECT_EQ(by["gpipe"]["makespan"], 33);               // (8 + 3) 3
  EXPECT_EQ(by["interleaved_1f1b"]["makespan"], 28.5);  // (8 + 3 / 2) 3
  EXPECT_EQ(by["single_device"]["makespan"], 96);       // 8 x 12
  EXPECT_EQ(by["data_parallel"]["makespan"], 24);       // 2 x 12 on every rank
  EXPECT_EQ(by["gpipe"]["activations"], (Json{8, 8, 8, 8}));
  EXPECT_EQ(by["single_device"]["activations"], (Json{4}));
  // One alone keeps the costs of a stage, unless told otherwise.
  const Arguments alone = {"schedule", "-s", "interleaved_1f1b", "-n", "4", "-m", "8", "--json"};
  EXPECT_EQ(document(alone)["costs"]["F"], 1);
  Arguments of_rank = alone;
  of_rank.insert(of_rank.end(), {"--costs-of", "rank"});
  EXPECT_EQ(document(of_rank)["makespan"], 28.5);
}

TEST_F(Cli, TheTableOfSeveralSystemsSaysWhichReject) {
  const Finished f = sluice({"schedule", "-s", "1f1b,chimera,gpipe", "-n", "3", "-m", "6"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("no schedule: chimera"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("1F1B"), std::string::npos);
  rejects({"schedule", "-s", "gpipe,breadth_first", "--set", "variant=h1"}, {"--set", "unknown option 'variant'"});
  rejects({"schedule", "-s", "gpipe,1f1b", "--csv"}, {"--csv", "is of one order"});
  rejects({"schedule"}, {"--system is missing"});
}

TEST_F(Cli, StagesMayHaveTimesOfTheirOwn) {
  // F0 at 0-2, F1 of stage 1 at 3-7, I at 7-8, W at 8-10; back at 9, I at 9-12, W at 12-13.
  const Json s =
      document({"schedule", "-s", "zero_bubble", "-n", "2", "-m", "1", "--costs", "2/3/1,4/1/2+1", "--json"});
  EXPECT_EQ(s["makespan"], 13);
  EXPECT_EQ(s["costs"]["stages"][1], (Json{{"F", 4}, {"I", 1}, {"W", 2}}));
  EXPECT_EQ(s["costs"]["latency"], 1);
  rejects({"schedule", "-s", "gpipe", "-n", "3", "--costs", "1/1/1,2/2/2"}, {"--costs", "2 stages, and there are 3"});
  rejects({"schedule", "-s", "gpipe", "-n", "2", "--costs", "1/1/1,2/2/2", "--costs-of", "rank"}, {"--costs"});
  for (const char* wrong : {"1/1/1,", "1/1/1,2/2/2+", "1/1/1/", "1/1/1/2/2"})
    rejects({"schedule", "-s", "gpipe", "-n", "2", "--costs", wrong}, {"--costs", "is not F/I/W[/PAIR][+latency]"});
  rejects({"schedule", "-s", "gpipe", "-n", "2", "--costs", "0/0/0"},
          {"--costs: the ops of '0/0/0' take no time; give at least one of F, I and W above 0"});
  rejects({"schedule", "-s", "gpipe", "-n", "2", "--costs", "1e10/1/1"},
          {"--costs: 1e+10 seconds in '1e10/1/1' is out of range; give 0 to 1e+09"});
}

TEST_F(Cli, LeadingZerosDoNotMakeANumberOctal) {
  const Json s = document({"schedule", "-s", "1f1b", "-n", "010", "-m", "08", "--json"});
  EXPECT_EQ(s["ranks"], 10);
  EXPECT_EQ(s["microbatches"], 8);
  const auto seconds = [&](const char* microbatches) {
    return document({"plan", "-s", "gpipe", "-w", "vgg16", "-c", "flat:04", "-m", microbatches, "--json"})
        .at("simulated_seconds");
  };
  EXPECT_EQ(seconds("016"), seconds("16"));
  EXPECT_NE(seconds("016"), seconds("8"));
}

TEST_F(Cli, SystemsAreNamedWithoutGapsAndMayBeExcluded) {
  EXPECT_EQ(document({"schedule", "-s", "gpipe,1f1b,zero_bubble,!1f1b", "-n", "2", "-m", "4", "--json"}).size(), 2u);
  EXPECT_EQ(sluice({"schedule", "-s", "*synchronous,!gpipe", "-n", "2", "-m", "2"}).out.find("GPipe "),
            std::string::npos);
  for (const char* gap : {",", "1f1b,", ",1f1b"})
    rejects({"schedule", "-s", gap}, {std::string("--system: a name is missing in '") + gap + "'", "write a,b,c"});
  rejects({"schedule", "-s", "!gpipe"}, {"--system: '!gpipe' excludes every system that it names", "'*,!gpipe'"});
  rejects({"schedule", "-s", "*,!gpip"}, {"--system: unknown system 'gpip'; did you mean 'gpipe'?"});
  rejects({"schedule", "-s", "x"}, {"--system: unknown system 'x'; known: "});
  rejects({"check", "nosuch"}, {"check: unknown system 'nosuch'"});
}

TEST_F(Cli, AFolderIsCalledAFolderWhereANameOrAFileIsExpected) {
  fs::create_directory(at("here"));
  rejects({"plan", "-s", "gpipe", "-w", "here"}, {"--workload: 'here' is a folder", "sluice list workloads"});
  rejects({"plan", "-s", "gpipe", "-w", "vgg16", "-c", "here"},
          {"--cluster: 'here' is a folder", "sluice list clusters"});
  rejects({"list", "here"}, {"list: 'here' is a folder"});
}

// Lengths 4, 4, 1, 1 on 3 ranks with an overhead of 2: micro-batches of 6, 6 and 2 + 2 * 1, as sample_groups_test.cpp
// has them.
TEST_F(Cli, MicroBatchesAreFormedOfSamplesOfDifferentLengths) {
  const Arguments lengths = {"-n", "3", "--sample-lengths", "1,4,1,4", "--group-overhead", "2"};
  const auto with = [&](Arguments first, const Arguments& more) {
    first.insert(first.end(), lengths.begin(), lengths.end());
    first.insert(first.end(), more.begin(), more.end());
    return first;
  };
  const Json formed = document(with({"schedule", "-s", "dynapipe"}, {"--json"}));
  EXPECT_EQ(formed["microbatch_sizes"], (Json{6, 6, 4}));
  EXPECT_EQ(formed, document({"schedule", "-s", "dynapipe", "-n", "3", "--microbatch-sizes", "6,6,4", "--json"}));
  const Json both = document(with({"schedule", "-s", "1f1b,dynapipe"}, {"--json"}));
  EXPECT_EQ(both[0]["microbatch_sizes"], formed["microbatch_sizes"]);
  EXPECT_NE(sluice(with({"schedule", "-s", "dynapipe"}, {})).out.find("--microbatch-sizes 6,6,4\n"), std::string::npos);
  const std::string table = sluice(with({"schedule", "-s", "1f1b,dynapipe"}, {})).out;
  EXPECT_NE(table.find("--costs 1/1/1 for a unit of length of a rank's share"), std::string::npos) << table;
  EXPECT_NE(table.find("held at most by a rank, in units of length of a rank's share"), std::string::npos) << table;
  rejects(with({"schedule", "-s", "1f1b"}, {}), {"--sample-lengths", "none of the systems forms micro-batches"});
  rejects(with({"schedule", "-s", "dynapipe"}, {"--group-limit", "3"}), {"dynapipe", "is over the limit of 3"});
  rejects(with({"schedule", "-s", "dynapipe"}, {"--group-limit", "-1"}), {"--group-limit", "out of range"});
  rejects(with({"schedule", "-s", "dynapipe"}, {"-m", "3"}), {"--sample-lengths"});
}

TEST_F(Cli, PeaksOfDifferentMicroBatchesAreAlsoInSamples) {
  const std::string text = sluice({"schedule", "-s", "1f1b", "-n", "2", "--microbatch-sizes", "3,1,3,1"}).out;
  EXPECT_NE(text.find("\nrank 0   idle 14, peak 2 in flight, activations of at most 4 samples\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("peak 1 in flight, activations of at most 3 samples\n"), std::string::npos) << text;
}

TEST_F(Cli, SizesAndLengthsMayBeDrawn) {
  const auto sizes = [&](const std::string& drawn) {
    const Json schedule = document({"schedule", "-s", "dynapipe", "-n", "2", "--microbatch-sizes", drawn, "--json"});
    std::vector<int> all;
    for (const Json& size : schedule["microbatch_sizes"]) all.push_back(size.get<int>());
    return all;
  };
  const std::vector<int> uniform = sizes("uniform:1000,shortest=3,longest=5");
  EXPECT_EQ(uniform.size(), 1000u);
  const auto count = [](const std::vector<int>& all, int size) { return double(std::ranges::count(all, size)); };
  for (const int size : {3, 4, 5}) EXPECT_NEAR(count(uniform, size), 333, 60);  // 4 standard deviations
  std::vector<int> lognormal = sizes("lognormal:1001,median=256,sigma=0.5,longest=600");
  EXPECT_NE(lognormal, sizes("lognormal:1001,median=256,sigma=0.5,longest=600,seed=2"));
  std::ranges::sort(lognormal);
  EXPECT_NEAR(lognormal[500], 256, 26);                   // 5 % a standard deviation in the logarithm: 2 %
  EXPECT_NEAR(lognormal[158], 256 * std::exp(-0.5), 20);  // 16 % are below
  EXPECT_NEAR(count(lognormal, 600), 0.0443 * 1001, 27);  // ln(600 / 256) / 0.5 = 1.70
  EXPECT_EQ(sizes("lognormal:3,median=7,sigma=0"), (std::vector{7, 7, 7}));
  const auto text =
      sluice({"schedule", "-s", "dynapipe", "-n", "3", "--sample-lengths", "lognormal:9,median=7,sigma=1"});
  EXPECT_TRUE(text.out.starts_with("--microbatch-sizes ")) << text.out;
  const std::map<std::string, std::string> faults = {
      {"normal:3,median=2", "'normal' is not a distribution"},
      {"uniform:3,shortest=2", "longest is missing"},
      {"uniform:3,shortest=4,longest=2", "shortest is above longest"},
      {"uniform:0,shortest=1,longest=2", "N is '0', not a whole number from 1 to 100000"},
      {"lognormal:3,median=2,sigma=x", "sigma is not a number from 0 to 10"},
      {"lognormal:3,median=2,sigma=1,mean=2", "'mean' is not a setting of lognormal"},
      {"uniform:3,shortest=1,shortest=1,longest=2", "'shortest=1' is not a setting of its own"},
  };
  for (const auto& [drawn, fault] : faults)
    rejects({"schedule", "-s", "dynapipe", "-n", "2", "--microbatch-sizes", drawn}, {"--microbatch-sizes", fault});
}

TEST_F(Cli, APairTakesTheSecondsThatCostsGiveIt) {
  const auto makespan = [&](const std::string& costs) {
    return document({"schedule", "-s", "dualpipe", "-O", "variant=v", "-n", "4", "-m", "8", "--costs", costs,
                     "--json"})["makespan"];
  };
  // 3 F, 8 F, 10 pairs, 7 I, W, 2 B and F on the critical path.
  EXPECT_EQ(makespan("1/1/1"), 54);
  EXPECT_EQ(makespan("1/1/1/3"), 54);
  EXPECT_EQ(makespan("1/1/1/2.5"), 49);
  EXPECT_EQ(makespan("2/2/2/5"), 98);
  const Json s = document({"schedule", "-s", "dualpipe", "--costs", "1/1/1/2.25+1", "-n", "2", "--json"});
  EXPECT_EQ(s["costs"], (Json{{"F", 1}, {"I", 1}, {"W", 1}, {"pair_share", 0.75}, {"latency", 1}}));
  const Finished text = sluice({"schedule", "-s", "dualpipe", "--costs", "1/1/1/2.25", "-n", "2"});
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("by formula at F = I = W, pairs as long as their ops, without latency"), std::string::npos);
  EXPECT_EQ(sluice({"schedule", "-s", "gpipe", "--costs", "1/1/1/2.25"}).err,
            "sluice: --costs: the time of a pair has no effect: no op runs in an overlapped pair\n");
  EXPECT_EQ(sluice({"schedule", "-s", "gpipe,dualpipe", "--costs", "1/1/1/2.25"}).err, "");
  rejects({"schedule", "-s", "dualpipe", "--costs", "1/1/1/1.5"},
          {"--costs", "a pair of 1.5 seconds", "F and B of 1 and 2 seconds take 2 to 30 together"});
  rejects({"schedule", "-s", "dualpipe", "--costs", "1/1/1/31"}, {"--costs", "a pair of 31 seconds"});
}

TEST_F(Cli, SchedulesOfTensOfThousandsOfRanksAreSimulated) {
  const Finished f = sluice({"schedule", "-s", "1f1b", "-n", "20000", "-m", "3"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("makespan 60006,"), std::string::npos);  // (3 + 19,999) 3
  rejects({"schedule", "-s", "1f1b", "-n", "65537", "-m", "3"}, {"--ranks", "give 1 to 65536"});
  // What is written op by op has a bound of its own.
  rejects({"schedule", "-s", "1f1b", "-n", "1024", "-m", "8192", "--versions"}, {"--microbatches", "are possible"});
}

TEST_F(Cli, AScheduleOfManyOpsIsASummary) {
  const Finished small = sluice({"schedule", "-s", "gpipe", "-n", "2", "-m", "500"});  // 2,000 ops
  EXPECT_NE(small.out.find(" 0F499 "), std::string::npos);
  const Finished large = sluice({"schedule", "-s", "gpipe", "-n", "100", "-m", "101"});
  EXPECT_EQ(large.out.find("0F1"), std::string::npos);
  EXPECT_NE(large.out.find("20200 ops on 100 ranks: --json, --csv and --text list them\n"), std::string::npos);
  // Every rank is idle for 99 forwards and 99 backwards of two seconds.
  EXPECT_NE(large.out.find("ranks 64 to 99: idle 297 to 297, peak 101 to 101 in flight\n"), std::string::npos)
      << large.out;
}

TEST_F(Cli, AnOrderThatIsARuleHasNoLimitOfMemory) {
  // 66 million ops as they are counted with W; (110,000 + 199) (F + B).
  const Finished f = sluice({"schedule", "-s", "1f1b", "-n", "200", "-m", "110000"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("makespan 330597,"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("330597 each with step=free, 330597 with step=barrier\n"), std::string::npos) << f.out;
  // Stored op by op: an order with recomputation, and one of pairs.
  for (const char* option : {"recompute=all", "variant=combined"})
    rejects({"schedule", "-s", "1f1b", "-n", "200", "-m", "110000", "-O", option}, {"--microbatches", "60000000 ops"});
  rejects({"schedule", "-s", "1f1b", "-n", "60000", "-m", "60000"}, {"--microbatches", "2000000000 ops"});
}

TEST_F(Cli, CopiesToTheHostTakeTheirTimeInASchedule) {
  const auto makespan = [&](const std::string& copy) {
    return document({"schedule", "-s", "pipe_offload", "-O", "copy_percent=50", "-n", "4", "-m", "8", "--json",
                     "--host-copy", copy})["makespan"]
        .get<double>();
  };
  EXPECT_EQ(makespan("0.5"), makespan("0"));  // copies overlap the ops
  EXPECT_GT(makespan("30"), makespan("0"));   // ops wait for them
  rejects({"schedule", "-s", "pipe_offload", "--host-copy", "-1"}, {"--host-copy", "-1 seconds is out of range"});
}

TEST_F(Cli, WeightVersionsStandBesideTheOps) {
  const Json s = document({"schedule", "-s", "pipedream", "-n", "3", "-m", "4", "--versions", "--json"});
  // Rank 0 of three runs two updates behind once the pipe is full; a backward reads what its forward read.
  EXPECT_EQ(s["reads"]["0"], (Json{"0F0@0", "0F1@0", "0F2@0", "0B0@0", "0F3@1", "0B1@0", "0B2@0", "0B3@1"}));
  EXPECT_EQ(s["reads"]["2"][6], "2F3@3");
  const Json split = document({"schedule", "-s", "zero_bubble", "-n", "2", "-m", "2", "--versions", "--json"});
  for (const Json& op : split["reads"]["0"])  // W reads no weights
    EXPECT_EQ(op.get<std::string>().find('W') == std::string::npos,
              op.get<std::string>().find('@') != std::string::npos);
  const Finished predicted = sluice({"schedule", "-s", "spectrain", "-n", "3", "-m", "4", "--versions"});
  EXPECT_NE(predicted.out.find("0F0@0+2 "), std::string::npos) << predicted.out;
  EXPECT_NE(predicted.out.find("@v+s: those, predicted s updates ahead"), std::string::npos);
}

TEST_F(Cli, APyTorchTableGoesOutAndComesBack) {
  const Finished out = sluice({"schedule", "-s", "dualpipe", "-O", "variant=v", "-n", "2", "-m", "4", "--csv"});
  EXPECT_EQ(out.code, 0) << out.err;
  EXPECT_TRUE(out.out.starts_with("0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,")) << out.out;
  const Json own = document({"schedule", "-s", "dualpipe", "-O", "variant=v", "-n", "2", "-m", "4", "--json"});
  const Json back = document({"schedule", "--from", put("v.csv", out.out), "--json"});
  EXPECT_EQ(back["ops"], own["ops"]);
  EXPECT_EQ(back["makespan"], own["makespan"]);
  const Finished compared = sluice({"schedule", "--from", at("v.csv"), "--system", "1f1b,gpipe", "--costs", "2/2/2+1"});
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_NE(compared.out.find(at("v.csv")), std::string::npos);
  EXPECT_NE(compared.out.find("1F1B"), std::string::npos);
  EXPECT_NE(sluice({"schedule", "--from", at("v.csv"), "--text"}).out.find("rank 0  F0"), std::string::npos);
}

TEST_F(Cli, ATableGoesOutWithItsMessagesAndComesBack) {
  const Finished out = sluice({"schedule", "-s", "1f1b", "-n", "2", "-m", "2", "--csv", "--messages"});
  EXPECT_EQ(out.code, 0) << out.err;
  EXPECT_TRUE(out.out.starts_with("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,")) << out.out;
  const Finished back = sluice({"schedule", "--from", put("m.csv", out.out), "--csv"});
  EXPECT_EQ(back.out, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n") << back.err;
  rejects({"schedule", "-s", "1f1b", "--messages"}, {"--messages", "--csv is missing"});
  // Rank 0 sends 0F1 while rank 1 sends 0B0.
  const std::string hangs =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  rejects({"schedule", "--from", put("h.csv", hangs)},
          {at("h.csv"), "where a send waits for its receive", "rank 0 at 0SEND_F1 for 1RECV_F1 of rank 1",
           "rank 1 at 1SEND_B0 for 0RECV_B0 of rank 0", "--csv --messages"});
}

TEST_F(Cli, WhatPyTorchCannotRunIsRejectedWithTheReason) {
  const auto table = [](const std::string& system) { return Arguments{"schedule", "-s", system, "-n", "4", "--csv"}; };
  rejects(table("chimera"), {"stage 0 is on ranks 0 and 3", "PyTorch gives a stage one rank"});
  rejects(table("data_parallel"), {"stage 0 is on ranks 0, 1, 2 and 3"});
  rejects(table("edgepipe"), {"runs forward only", "PyTorch's schedules train"});
  rejects(table("pipedream"), {"updates without a flush"});
  rejects(table("2bw"), {"updates without a flush"});
  const Finished recomputing = sluice({"schedule", "-s", "1f1b", "-O", "recompute=all", "--csv"});
  EXPECT_EQ(recomputing.code, 0);
  EXPECT_NE(recomputing.err.find("not in the table: recomputation"), std::string::npos) << recomputing.err;
}

TEST_F(Cli, AWrongTableIsRejectedWithItsPlace) {
  rejects({"schedule", "--from", at("no.csv")}, {at("no.csv"), "no such file"});
  rejects({"schedule", "--from", put("a.csv", "0F0,0B0\n1F0,xyz\n")}, {"line 2, cell 2", "'xyz' is no action"});
  rejects({"schedule", "--from", put("b.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n")}, {"1 fault", "1F1 is run by no rank"});
  rejects({"schedule", "--from", put("c.csv", "0F0,0B0,0F9999999\n")}, {"line 1, cell 3"});
  rejects({"schedule", "--from", put("d.csv", "")}, {"holds no action"});
  // As PyTorch 2.15 makes it for Schedule1F1B.
  rejects({"schedule", "--from", put("e.csv", "0F0,0F1,0B0,0B1\n1F1,1B0,1F2,1B1\n")},
          {"1F0 is run by no rank", "a fault of PyTorch", "Schedule1F1B", "sluice schedule -s 1f1b --csv"});
}

TEST_F(Cli, ATableHasItsOwnRanksAndMicroBatches) {
  put("t.csv", "0F0,0B0\n");
  for (const char* flag : {"--ranks", "--microbatches", "--chunks"})
    rejects({"schedule", "--from", at("t.csv"), flag, "2"}, {"--from and", flag, "do not go together"});
}

TEST_F(Cli, ATableIsTimedOnTheCostsOfAModel) {
  put("six.csv", sluice({"schedule", "-s", "1f1b", "-n", "6", "-m", "8", "--csv"}).out);
  const Json on_model = document({"schedule", "--from", at("six.csv"), "--workload", "vgg16", "--json"});
  EXPECT_EQ(on_model["simulated_seconds"], document({"plan", "-s", "1f1b", "-w", "vgg16", "-n", "6", "-m", "8", "-c",
                                                     "flat:6", "--json"})["simulated_seconds"]);
  EXPECT_EQ(on_model["stages"].size(), 6u);
  const Json faster = document({"schedule", "--from", at("six.csv"), "-w", "vgg16", "-c", "dgx_h100", "--json"});
  EXPECT_LT(faster["simulated_seconds"].get<double>(), on_model["simulated_seconds"].get<double>());
  // Costs of micro-batches of one size: two stages of 0.077 + 0.2 seconds, (3 + 1) of them one after the other.
  put("two.csv", sluice({"schedule", "-s", "1f1b", "-n", "2", "-m", "3", "--csv"}).out);
  const std::string costs =
      put("net.costs.json", content(SLUICE_SOURCE_DIR "/harness/tests/fuzz/corpus/profile/costs.json"));
  const Json on_costs = document({"schedule", "--from", at("two.csv"), "--workload", costs, "--json"});
  EXPECT_NEAR(on_costs["simulated_seconds"].get<double>(), 4 * 0.277, 1e-4);
  rejects({"schedule", "--from", at("no.csv"), "-w", "vgg16"}, {at("no.csv") + ": no such file"});
  const std::string sixteen = sluice({"schedule", "-s", "1f1b", "-n", "16", "-m", "16", "--csv"}).out;
  rejects({"schedule", "--from", put("16.csv", sixteen), "-w", "tiny"}, {"16 stages for a model of"});
  rejects({"schedule", "--from", at("six.csv"), "-w", "vgg16", "--costs", "1/1/1"},
          {"--workload and --costs do not go together"});
  rejects({"schedule", "-s", "1f1b", "-w", "vgg16"}, {"--workload"});
  rejects({"schedule", "--from", at("six.csv"), "-c", "dgx_h100"}, {"--cluster needs --workload"});
}

TEST_F(Cli, SeveralPlansAreOneTable) {
  const Finished f = sluice({"plan", "-s", "gpipe,1f1b,single_device", "-w", "vgg16", "-c", "flat:4,memory=32GiB"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(lines(f.out).size(), 4u);
  const Json plans = document({"plan", "-s", "gpipe,1f1b", "-w", "vgg16", "-c", "flat:4,memory=32GiB", "--json"});
  ASSERT_EQ(plans.size(), 2u);
  rejects({"plan", "-s", "gpipe", "-w", "vgg16", "--microbatches", "7"}, {"--microbatches", "do not divide"});
  rejects({"plan", "-s", "gpipe", "-w", "vgg16", "--ranks", "0"}, {"--ranks: is 0", "at least 1"});
}

TEST_F(Cli, APlanHasItsTable) {
  const Finished table =
      sluice({"plan", "-s", "1f1b", "-w", "vgg16", "-c", "flat:4,memory=32GiB", "-b", "64", "-m", "8", "--csv"});
  EXPECT_EQ(table.code, 0) << table.err;
  const Finished order = sluice({"schedule", "-s", "1f1b", "-n", "4", "-m", "8", "--csv"});
  EXPECT_EQ(table.out, order.out);
}

TEST_F(Cli, APlanForGroupsThatShareLayersIsToldInGroups) {
  const Arguments whole = {"plan", "-s", "1f1b", "-w", "tfm256", "-c", "flat:8", "-n", "2", "-m", "8"};
  Arguments groups = whole;
  groups[8] = "8";
  groups.insert(groups.end(), {"--tensor", "4"});
  const auto with = [](Arguments a, const char* flag) {
    a.emplace_back(flag);
    return a;
  };
  const Json two = document(with(whole, "--json")), eight = document(with(groups, "--json"));
  ASSERT_EQ(eight["stages"].size(), 2u);
  EXPECT_EQ(eight["stages"][1]["devices"], (Json{4, 5, 6, 7}));
  EXPECT_EQ(eight["stages"][1]["tensor"], 4);
  EXPECT_EQ(eight["stages"][1]["data"], 1);
  EXPECT_EQ(two["stages"][1]["tensor"], 1);
  // PyTorch's table has a rank for each group.
  EXPECT_EQ(sluice(with(groups, "--csv")).out, sluice(with(whole, "--csv")).out);
  const Finished shown = sluice(groups);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("2 stages, 2 deep, on 8 of 8 devices in tensor-parallel groups of 4"), std::string::npos)
      << shown.out;
  rejects({"plan", "-s", "1f1b", "-w", "tfm256", "-c", "flat:8", "--tensor", "3"},
          {"--tensor", "groups of 3 devices do not divide 8 ranks"});
  rejects({"plan", "-s", "1f1b", "-w", "tfm256", "-c", "flat:8", "--tensor", "0"}, {"--tensor", "at least 1"});
  rejects({"plan", "-s", "pipedream", "-w", "tfm256", "-c", "flat:8", "--tensor", "2"}, {"tensor", "without a flush"});
}

TEST_F(Cli, ASystemThatOnlyInfersIsPlannedForInferenceAndNoAdviceForTraining) {
  const Json plan = document({"plan", "-s", "edgepipe", "-w", "vgg16", "-c", "flat:4", "--json"});
  EXPECT_GT(plan["stages"].size(), 1u);
  rejects({"advise", "-s", "edgepipe", "-w", "vgg16", "-c", "flat:4"}, {"--system", "only infers"});
}

TEST_F(Cli, AdviceTriesDevicesThatShareLayers) {
  const Arguments ask = {"advise", "-w", "tfm256", "-c", "flat:4", "-s", "1f1b", "-m", "8", "--json"};
  std::map<int, int> tried;  // how many candidates of a degree
  const Json all = document(ask);
  for (const Json& c : all["candidates"]) {
    ++tried[c["tensor"].get<int>()];
    EXPECT_EQ(c["run"].get<std::string>().find("--tensor") != std::string::npos, c["tensor"] != 1);
  }
  EXPECT_GT(tried[1], 0);
  EXPECT_GT(tried[2], 0);
  EXPECT_GT(tried[4], 0);  // all of them, and no pipeline
  Arguments one = ask;
  one.insert(one.end(), {"--tensor", "1"});
  const Json whole = document(one);
  for (const Json& c : whole["candidates"]) EXPECT_EQ(c["tensor"], 1);
  rejects({"advise", "-w", "tfm256", "-c", "flat:4", "--tensor", "3"}, {"--tensor", "do not divide 4 ranks"});
  rejects({"advise", "-w", "tfm256", "-c", "flat:4", "--tensor", "two"}, {"--tensor", "'two'"});
}

TEST_F(Cli, AdviceSaysWhatItAssumesAndWhichPlacesAreShared) {
  const Arguments ask = {"advise", "-w", "tfm256",   "-c", "flat:4", "-s", "gpipe,1f1b,pipedream,single_device",
                         "-m",     "8",  "--tensor", "1"};
  const Finished f = sluice(ask);
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* text :
       {"place  system", "\n   1=  ", "  uses 1 of 4 devices\n", "places shared within the model's error of 8 %\n",
        "share the first place; the plan below is that of ", "\noverlap:       no plan has replicas",
        "\ncollectives:   ring over all ranks of a stage", "\nprecision:     fp32\n",
        "\noptimizer:     ", "\nrecomputation: ", "\ncosts:         calibrated v100_sxm2_fp32"})
    EXPECT_NE(f.out.find(text), std::string::npos) << text << "\n" << f.out;
  for (const char* text : {"faster", "1 updates", "edgepipe"}) EXPECT_EQ(f.out.find(text), std::string::npos) << text;
  Arguments json = ask;
  json.push_back("--json");
  const Json document = this->document(json);
  EXPECT_EQ(document["model_error"], 0.08);
  EXPECT_EQ(document["winner"]["place"], 1);
  EXPECT_EQ(document["assumptions"]["precision"], "fp32");
  for (const char* about : {"overlap", "collectives", "optimizer", "recomputation", "costs"})
    EXPECT_TRUE(document["assumptions"].contains(about)) << about;
  const Finished replicas =
      sluice({"advise", "-w", "tfm256", "-c", "flat:4", "-s", "data_parallel", "-m", "8", "--gradient-buckets", "end"});
  EXPECT_NE(replicas.out.find("\noverlap:       gradients of replicas are all-reduced after the backward\n"),
            std::string::npos)
      << replicas.out;
  const Finished large = sluice(
      {"advise", "-w", "tfm256", "-c", "flat:4,memory=32GiB", "-s", "gpipe,1f1b", "-m", "8", "--memory", "1KiB"});
  EXPECT_EQ(large.code, 2);
  EXPECT_NE(large.out.find("does not fit: gpipe needs at least "), std::string::npos) << large.out;
  EXPECT_NE(large.out.find(" on a device that has 1 KiB\n"), std::string::npos) << large.out;
  EXPECT_EQ(lines(large.out).size(), 2u) << large.out;
  expect_error(large, 2, {"advise: no system has a plan that fits; give more memory"});
  expect_error(sluice({"advise", "-w", "vgg16", "-c", "flat:4", "-s", "pipedream", "--clip-norm", "3"}), 2,
               {"advise: no system has a plan; the lines above say why"});
  rejects({"advise", "-w", "tfm256", "-c", "flat:4", "--memory", "0GiB"},
          {"--memory: must be greater than 0, is '0GiB'"});
  rejects({"advise", "-s", "edgepipe,gpipe", "-w", "vgg16", "-c", "flat:4"}, {"--system", "'edgepipe' only infers"});
}

TEST_F(Cli, ThePageOfAStudyIsWrittenWhereTheStudyIs) {
  const fs::path results = fs::path(SLUICE_SOURCE_DIR) / "results";
  for (const char* folder : {"reference", "mine"}) {
    fs::create_directory(at(folder));
    for (const char* file : {"edgepipe.json", "edgepipe.jsonl"})
      fs::copy_file(results / "reference" / file, at(std::string(folder) + "/" + file));
  }
  EXPECT_EQ(sluice({"report", "--markdown", at("reference/edgepipe.json")}).code, 0);
  EXPECT_EQ(content(at("findings/edgepipe.md")), content((results / "findings/edgepipe.md").string()));
  EXPECT_EQ(sluice({"report", "--markdown", at("mine/edgepipe.json")}).code, 0);
  EXPECT_TRUE(fs::exists(at("mine/edgepipe.md")));
  EXPECT_EQ(sluice({"report", "--markdown", at("mine/edgepipe.json"), "--out", at("pages")}).code, 0);
  EXPECT_TRUE(fs::exists(at("pages/edgepipe.md")));
  rejects({"report", "--markdown", at("mine/edgepipe.json"), at("reference/edgepipe.json")}, {"--out"});
}

TEST_F(Cli, TheLeaderboardIsPrintedAndWrittenAsAPage) {
  const Finished f = sluice({"leaderboard", "--html", at("board.html")});
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* text : {"Synchronous systems", "Asynchronous systems", "Single device", "Zero bubble"})
    EXPECT_NE(f.out.find(text), std::string::npos) << text << "\n" << f.out;
  EXPECT_NE(content(at("board.html")).find("data-system=\"zero_bubble\""), std::string::npos);
  rejects({"leaderboard", "--add", "zero_buble"}, {"--add", "did you mean 'zero_bubble'?"});
  rejects({"leaderboard", "--add", "edgepipe"}, {"--add", "has no case of 'edgepipe'"});
  rejects({"leaderboard", "--train"}, {"--add"});
  rejects({"leaderboard", "--wall"}, {"--add"});
}

TEST_F(Cli, ListTellsAllAboutOneThing) {
  const Finished f = sluice({"list", "1f1b"}, {{"COLUMNS", "60"}});
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* text : {"one_f_one_b", "1f1b, pipedream_flush", "citation", "recompute", "default: ",
                           "written from    code; zero=1: abstract;", "ours            When zero=1 and zero=3"})
    EXPECT_NE(f.out.find(text), std::string::npos) << text << "\n" << f.out;
  for (const std::string& line : lines(f.out)) EXPECT_LE(line.size(), 60u) << line;
  EXPECT_EQ(document({"list", "gpipe", "--json"})["name"], "gpipe");
  const std::vector<std::string> systems = lines(sluice({"list", "systems"}, {{"COLUMNS", "120"}}).out);
  EXPECT_EQ(systems.at(1), "  name                   written from                  title");
  EXPECT_EQ(std::ranges::count(systems, "  spp                    memory, ours                  SPP"), 1);
  EXPECT_NE(sluice({"list", "vgg16"}).out.find("parameters"), std::string::npos);
  rejects({"list", "gpip"}, {"list", "did you mean 'gpipe'?"});
  rejects({"list", "interleaved"}, {"did you mean 'interleaved_1f1b'?"});
}

TEST_F(Cli, SeveralSystemsRunAtOnceWithTheOptionsThatTheyHave) {
  const Json cases = document({"run", "-s", "gpipe,zero_bubble", "-w", "vgg16", "--clock", "virtual", "-c", "flat:4",
                               "-n", "4", "-O", "variant=h2", "--no-train", "--dry-run", "--json"});
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0]["system"], "gpipe");
  EXPECT_EQ(cases[1]["options"]["variant"], "h2");
  EXPECT_EQ(cases[0]["train"], false);
  rejects({"run", "-s", "gpipe", "-w", "tiny", "--no-train", "--dry-run"},
          {"--no-train", "the wall clock always trains"});
  rejects({"run", "-s", "gpipe,breadth_first", "-w", "tiny", "-O", "variant=h2", "--dry-run"},
          {"unknown option 'variant'"});
}

TEST_F(Cli, NamesAndUnitsAreRejectedPlainly) {
  rejects({"schedule", "-s", "1F1B"}, {"did you mean '1f1b'?"});
  rejects({"plan", "-s", "gpipe", "-w", "profiles/none.json"}, {"no such file 'profiles/none.json'"});
  rejects({"plan", "-s", "gpipe", "-w", "vgg61"}, {"unknown workload 'vgg61'", "did you mean 'vgg16'?"});
  rejects({"plan", "-s", "gpipe", "-w", "vgg16", "-c", "flat:4,latency=5"}, {"'5' has no unit"});
  const std::string cluster = put("c.json", R"({"name": "c", "devices": [{"count": 2, "memory": "24"}]})");
  rejects({"plan", "-s", "gpipe", "-w", "vgg16", "-c", cluster}, {"/devices/0/memory", "'24' has no unit"});
}

TEST_F(Cli, BashCompletesThroughTheScript) {
  const std::string script = put("complete.sh",
                                 "eval \"$(\"$1\" completion bash)\"\n"
                                 "COMP_WORDS=(\"$1\" schedule --system inter)\n"
                                 "COMP_CWORD=3\n"
                                 "_sluice\n"
                                 "echo \"${COMPREPLY[*]}\"\n"
                                 "COMP_WORDS=(\"$1\" schedule -s zero_bubble --set variant = a)\n"
                                 "COMP_CWORD=7\n"
                                 "_sluice\n"
                                 "echo \"${COMPREPLY[*]}\"\n");
  const std::string command = "bash '" + script + "' '" + SLUICE_PROGRAM + "' > '" + at("out") + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(content(at("out")), "interleaved_1f1b\nauto\n");
}

}  // namespace
}  // namespace sluice
