// mpirun with ranks that read different inputs: one error that names them, and no record.
#include <cstdlib>

#include "harness/cli/cli_test_support.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/model/cost_graph.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

class LaunchedInputs : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (!mpi_built()) GTEST_SKIP() << "this build has no MPI";
    for (const char* name :
         {"OMPI_MCA_rmaps_base_oversubscribe", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(name, "1", 1);
    if (std::system("mpirun -n 1 true >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "mpirun starts nothing here (mpirun -n 1 true)";
    for (const int rank : {0, 1, 2}) fs::create_directories(of_rank(rank));
  }

  std::string of_rank(int rank) const { return at(std::to_string(rank)); }

  // mpirun -n 3 sluice run ARGUMENTS, each rank in a folder of its own, which holds its data.
  Finished run(const std::string& arguments) const {
    // What the MPI library never frees is no leak of ours.
    put("rank.sh", "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\ncd '" + folder_ +
                       "'/$rank\nexport ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0\nSLUICE_DATA=$PWD exec " +
                       SLUICE_PROGRAM + " run --transport mpi --ranks 3 --out '" + at("r.jsonl") + "' \"$@\"\n");
    const int status = std::system(
        ("mpirun -n 3 sh '" + at("rank.sh") + "' " + arguments + " >'" + at(".out") + "' 2>'" + at(".err") + "'")
            .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(at(".out")), content(at(".err"))};
  }
  static std::string error_in(const Finished& f) {
    std::string errors;
    for (const std::string& line : lines(f.err))
      if (line.starts_with("error: ")) errors += line + "\n";
    return errors;
  }
  std::string costs_of_tiny(double flops) const {
    const Workload& tiny = find_workload("tiny");
    return to_json(analytic_costs(tiny.model, tiny.batch / tiny.microbatches, Device{.flops = flops})).dump();
  }
};

TEST_F(LaunchedInputs, RanksWithOtherDataEndBeforeAnythingRuns) {
  for (const int rank : {0, 1, 2}) write_test_data(of_rank(rank), rank == 2 ? 256 : 128, 64);
  const Finished f = run("--system gpipe --workload fmnist_mlp --costs analytic --steps 2");
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(error_in(f), "error: data 'fashion-mnist': ranks 0 and 2 read different contents: rank 0 " + of_rank(0) +
                             "/fashion-mnist, rank 2 " + of_rank(2) +
                             "/fashion-mnist; give every rank the same files and the same command line\n");
  EXPECT_FALSE(fs::exists(at("r.jsonl")));
}

TEST_F(LaunchedInputs, RanksWithOtherCostsEndBeforeAnythingRuns) {
  for (const int rank : {0, 1, 2}) put(std::to_string(rank) + "/costs.json", costs_of_tiny(rank == 0 ? 1e12 : 2e12));
  const Finished f = run("--system gpipe --workload tiny --costs costs.json --steps 2");
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(error_in(f), "error: case 1 of the sweep: ranks 0 and 1 read different contents of 'costs': rank 0 " +
                             of_rank(0) + "/costs.json, rank 1 " + of_rank(1) +
                             "/costs.json; give every rank the same files and the same command line\n");
  EXPECT_FALSE(fs::exists(at("r.jsonl")));
}

TEST_F(LaunchedInputs, RanksWithOtherWorkloadFilesEndBeforeAnythingRuns) {
  for (const int rank : {0, 1, 2}) {
    Json workload = to_json(find_workload("tiny"));
    if (rank == 2) workload["batch"] = 128;
    put(std::to_string(rank) + "/mine.json", workload.dump());
  }
  const Finished f = run("--system gpipe --workload mine.json --costs analytic --steps 2 --batch 64 --microbatches 8");
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(error_in(f), "error: case 1 of the sweep: ranks 0 and 2 read different contents of 'workload': rank 0 " +
                             of_rank(0) + "/mine.json, rank 2 " + of_rank(2) +
                             "/mine.json; give every rank the same files and the same command line\n");
  EXPECT_FALSE(fs::exists(at("r.jsonl")));
}

// What only one rank sees is told, once; so is what every rank sees, before they could agree.
TEST_F(LaunchedInputs, AnErrorOfOneRankOrOfAllIsOneLine) {
  for (const int rank : {0, 2}) put(std::to_string(rank) + "/costs.json", costs_of_tiny(1e12));
  Finished f = run("--system gpipe --workload tiny --costs costs.json --steps 2");
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(lines(error_in(f)).size(), 1u) << f.err;
  EXPECT_TRUE(error_in(f).starts_with("error: process 1: --costs: no such file 'costs.json'; ")) << f.err;
  f = run("--system gpipe --workload tiny --costs analytic --steps 2 --nonsense");
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(lines(error_in(f)).size(), 1u) << f.err;
  EXPECT_NE(error_in(f).find("--nonsense"), std::string::npos) << f.err;
}

TEST_F(LaunchedInputs, RanksWithOtherLaterCasesOfASweepEndBeforeAnythingRuns) {
  for (const int rank : {0, 1, 2})
    put(std::to_string(rank) + "/sweep.json",
        R"({"defaults": {"system": "gpipe", "workload": "tiny", "transport": "mpi", "ranks": 3, "costs": "analytic"},
            "grid": [{"steps": 1}, {"steps": )" +
            std::to_string(rank == 1 ? 3 : 2) + "}]}");
  const std::string script = "cd '" + folder_ + "'/${OMPI_COMM_WORLD_RANK:-$PMI_RANK} && exec " +
                             std::string(SLUICE_PROGRAM) + " run sweep.json --out '" + at("r.jsonl") + "'\n";
  put("sweep.sh", script);
  EXPECT_NE(
      std::system(("mpirun -n 3 sh '" + at("sweep.sh") + "' >'" + at(".out") + "' 2>'" + at(".err") + "'").c_str()), 0);
  const std::string error = error_in({.out = "", .err = content(at(".err"))});
  EXPECT_EQ(
      error,
      "error: case 2 of the sweep: differs between rank 0 and rank 1: its steps is 2 on rank 0, 3 on rank 1; give "
      "every rank the same files and the same command line\n");
  EXPECT_FALSE(fs::exists(at("r.jsonl")));
}

// In a build without LibTorch the case fails for that alone.
TEST_F(LaunchedInputs, RanksWithTheSameInputsInOtherPlacesRun) {
  for (const int rank : {0, 1, 2}) write_test_data(of_rank(rank), 128, 64);
  const Finished f = run("--system gpipe --workload fmnist_mlp --costs analytic --steps 2 --microbatches 4 --batch 64");
  for (const char* text : {"differ", "same files"}) EXPECT_EQ(f.err.find(text), std::string::npos) << f.err;
  EXPECT_TRUE(fs::exists(at("r.jsonl"))) << f.err;
}

}  // namespace
}  // namespace sluice
