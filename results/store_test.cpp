// What the store promises when things go wrong: torn lines, full disks, wrong paths, two writers.
#include "results/store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/json.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sluice-store-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Record record(const std::string& digest, RecordOutcome outcome = RecordOutcome::ok) {
    Record r;
    r.digest = digest;
    r.system = "gpipe";
    r.workload = "mlp";
    r.clock = Clock::wall;
    r.outcome = outcome;
    if (outcome != RecordOutcome::ok) r.reason = "rank 1: disk full";
    return r;
  }
  static std::string content(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  template <class Error, class Function>
  static std::string message_of(Function function) {
    try {
      function();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  fs::path folder_;
};

TEST_F(StoreTest, ALineThatWasEditedIsNoResult) {
  const fs::path path = fs::path(folder_) / "edited.jsonl";
  Store(path).append(record("aaaa"));
  const std::string whole = content(path);
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string line = whole;
    line.replace(line.find(from), from.size(), to);
    std::ofstream(path) << line;
    try {
      read_records(path);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_with("gpipe", "gpipe"), "");
  for (const auto& [from, to] : {std::pair("gpipe", "pipedream"), {"\"mlp\"", "\"cnn\""}, {"aaaa", "bbbb"}}) {
    const std::string error = error_with(from, to);
    EXPECT_TRUE(error.starts_with(path.string() + ":1: was changed after it was written")) << error;
  }
}

TEST_F(StoreTest, CreatesFoldersAndReadsBackWhatWasAppended) {
  const fs::path path = folder_ / "deep" / "er" / "runs.jsonl";
  {
    Store store(path);
    store.append(record("a"));
    store.append(record("b", RecordOutcome::failed));
  }
  Store store(path);
  store.append(record("c"));
  std::vector<std::string> digests;
  for (const Record& r : store.read()) digests.push_back(r.digest);
  EXPECT_EQ(digests, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(store.warnings().empty());
}

TEST_F(StoreTest, FiguresAreReadWithoutTimelinesAndLayersOfPlans) {
  const fs::path path = folder_ / "runs.jsonl";
  Record r = record("a");
  r.ranks = r.microbatches = 1;
  r.batch = r.samples_per_step = 1;
  r.timeline = {{0, "0F0", 0, 1}, {0, "0B0", 1, 2}};
  r.plan = PlanDescription{.stages = {{.layers = {{0, 1, 2}}, .devices = {0}}}};
  std::string lines;  // more than one thread takes on
  for (int k = 0; k < 1000; ++k) {
    r.digest = std::to_string(k);
    lines += to_json(r).dump() + "\n";
  }
  put(path, lines + R"({"batch":1, "timeline":{"rank":[)");
  EXPECT_EQ(read_records(path).records.at(999).timeline.size(), 2u);
  const StoredRecords read = read_records(path, RecordUse::figures);
  ASSERT_EQ(read.records.size(), 1000u);
  for (int k = 0; k < 1000; ++k) EXPECT_EQ(read.records[static_cast<std::size_t>(k)].digest, std::to_string(k));
  EXPECT_TRUE(read.records[0].timeline.empty());
  EXPECT_EQ(read.records[0].plan.value().stages.at(0).layers, std::nullopt);
  EXPECT_EQ(read.warnings.size(), 1u);

  // The first of the lines that are wrong is named, whichever thread reads it.
  std::string wrong = lines;
  for (const char* digest : {R"("digest":"700")", R"("digest":"900")"})
    wrong.replace(wrong.find(digest), 8, R"("digesT")");
  put(path, wrong);
  EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("runs.jsonl:701: /digest: is missing"),
            std::string::npos);
}

TEST_F(StoreTest, SetsATornLineAsideAndKeepsTheRest) {
  const fs::path path = folder_ / "runs.jsonl";
  Store(path).append(record("a"));
  const std::string whole = content(path);
  put(path, whole + whole.substr(0, whole.size() / 2));

  EXPECT_EQ(read_records(path).records.size(), 1u);  // reading alone changes nothing
  EXPECT_EQ(read_records(path).warnings.size(), 1u);
  EXPECT_NE(content(path), whole);

  Store store(path);
  ASSERT_EQ(store.warnings().size(), 1u);
  EXPECT_NE(store.warnings()[0].find("runs.jsonl.torn"), std::string::npos);
  EXPECT_EQ(content(path), whole);
  EXPECT_EQ(content(path.string() + ".torn"), whole.substr(0, whole.size() / 2) + "\n");
}

TEST_F(StoreTest, SetsAnUnparsableLastLineAside) {
  const fs::path path = folder_ / "runs.jsonl";
  put(path, "{\"batch\":\n");
  EXPECT_EQ(Store(path).warnings().size(), 1u);
  EXPECT_EQ(content(path), "");
  put(path, "{\"ba");
  EXPECT_EQ(Store(path).warnings().size(), 1u);
  EXPECT_EQ(content(path.string() + ".torn"), "{\"batch\":\n{\"ba\n");  // both are kept
}

TEST_F(StoreTest, AWholeLineWithAKeyTwiceIsAnErrorAndNotTorn) {
  const fs::path path = folder_ / "runs.jsonl";
  Store(path).append(record("a"));
  std::string line = content(path);
  line.insert(1, "\"batch\":1,");
  put(path, line);
  EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("runs.jsonl:1"), std::string::npos);
  EXPECT_THROW(Store{path}, InputError);
  EXPECT_EQ(content(path), line);
}

TEST_F(StoreTest, ALastLineWithoutItsEndIsTornOnlyIfItIsTheBeginningOfARecord) {
  const fs::path path = folder_ / "runs.jsonl";
  Store(path).append(record("a"));
  const std::string line = content(path);
  std::string twice = line.substr(0, line.size() - 1);
  twice.insert(1, "\"batch\":1,");
  for (const std::string& last : {twice, std::string("my notes"), std::string("[1, 2"), std::string("1e999\n")}) {
    put(path, line + last);
    EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("runs.jsonl:2"), std::string::npos) << last;
    EXPECT_THROW(Store{path}, InputError) << last;
    EXPECT_EQ(content(path), line + last);
  }
}

TEST_F(StoreTest, WhatIsNotATornLineStaysInTheFileBesideIt) {
  const fs::path path = folder_ / "runs.jsonl", aside = folder_ / "runs.jsonl.torn";
  put(path, "{\"ba");
  put(aside, "my notes\n");
  EXPECT_NE(message_of<InputError>([&] { Store store(path); }).find("runs.jsonl.torn: holds something else"),
            std::string::npos);
  EXPECT_EQ(content(aside), "my notes\n");
  EXPECT_EQ(content(path), "{\"ba");
  fs::remove(aside);
  ASSERT_EQ(::mkfifo(aside.c_str(), 0666), 0);  // opened for writing, it would wait for a reader
  EXPECT_NE(message_of<InputError>([&] { Store store(path); }).find("runs.jsonl.torn: is a pipe"), std::string::npos);
}

TEST_F(StoreTest, APathThatEndsLikeAFolderMakesNone) {
  EXPECT_THROW(Store(folder_ / "runs/"), InputError);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(StoreTest, EveryBeginningOfARecordIsSetAside) {
  const fs::path path = folder_ / "runs.jsonl";
  Store(path).append(record("a"));
  const std::string line = content(path);
  for (std::size_t length = 1; length + 1 < line.size(); ++length) {
    put(path, line.substr(0, length));
    EXPECT_EQ(Store(path).warnings().size(), 1u) << length;
    EXPECT_EQ(content(path), "");
  }
}

TEST_F(StoreTest, AFileThatHoldsAnythingElseStaysAsItIs) {
  const fs::path path = folder_ / "runs.jsonl";
  Store(path).append(record("a"));
  const std::string line = content(path);
  for (const std::string& text : {std::string("my notes"), std::string("my notes\nmore\n"),
                                  std::string("\x7f"
                                              "ELF\0\1\n",
                                              7),
                                  std::string(R"({"grid": []})"), std::string("{\n \"grid\": []\n}\n"),
                                  std::string("{}\n"), std::string("{\"grid\": ["), line + "my notes",
                                  line + "my notes\n", "my notes\n" + line, line + "{}\n" + line}) {
    put(path, text);
    EXPECT_NE(message_of<InputError>([&] { Store store(path); }).find("runs.jsonl"), std::string::npos) << text;
    EXPECT_EQ(content(path), text);
    EXPECT_FALSE(fs::exists(path.string() + ".torn"));
  }
}

TEST_F(StoreTest, ALinkIsTheFileItself) {
  Store(folder_ / "runs.jsonl").append(record("a"));
  fs::create_symlink("runs.jsonl", folder_ / "link.jsonl");
  Store store(folder_ / "link.jsonl");
  store.append(record("b"));
  EXPECT_EQ(store.path().filename(), "runs.jsonl");
  EXPECT_EQ(read_records(folder_ / "runs.jsonl").records.size(), 2u);
}

TEST_F(StoreTest, ShardsOfOneSweepShareAFileAndNothingElseDoes) {
  const fs::path path = folder_ / "runs.jsonl";
  Store first(path), second(path), third(path);
  const auto claim = [&](Store& store, std::optional<SweepPart> part) {
    return message_of<InputError>([&] { store.claim(part, [] {}); });
  };
  EXPECT_EQ(claim(first, SweepPart{0, 2}), "nothing was thrown");
  EXPECT_TRUE(second.is_claimed(SweepPart{0, 2}));
  EXPECT_FALSE(second.is_claimed(SweepPart{1, 2}));
  EXPECT_FALSE(second.is_claimed(SweepPart{0, 3}));
  EXPECT_FALSE(first.is_claimed(SweepPart{0, 2}));  // by itself
  EXPECT_NE(claim(second, SweepPart{0, 2}).find("is writing this shard"), std::string::npos);
  EXPECT_NE(claim(second, std::nullopt).find("another process is writing"), std::string::npos);
  EXPECT_EQ(claim(second, SweepPart{1, 2}), "nothing was thrown");
  EXPECT_NE(claim(third, SweepPart{0, 3}).find("not of 3"), std::string::npos);
  EXPECT_NE(claim(third, SweepPart{0, 1}).find("not of 1"), std::string::npos);
}

TEST_F(StoreTest, FindsALineTornAfterItWasOpened) {
  const fs::path path = folder_ / "runs.jsonl";
  Store store(path);
  store.append(record("a"));
  std::ofstream(path, std::ios::app) << "{\"batch\":1,\"clo";  // another writer dies here
  store.append(record("b"));
  EXPECT_EQ(store.read().size(), 2u);
  EXPECT_EQ(store.warnings().size(), 1u);
}

TEST_F(StoreTest, CompletesAWholeRecordThatLacksItsLineEnd) {
  const fs::path path = folder_ / "runs.jsonl";
  Store(path).append(record("a"));
  const std::string whole = content(path);
  put(path, whole.substr(0, whole.size() - 1));
  EXPECT_EQ(read_records(path).records.size(), 1u);
  EXPECT_EQ(Store(path).warnings().size(), 1u);
  EXPECT_EQ(content(path), whole);
}

TEST_F(StoreTest, ALongLineIsReadFromItsBegin) {
  const fs::path path = folder_ / "runs.jsonl";
  Record big = record("a");
  big.cost_source = std::string(200'000, 'x');  // longer than a block of the tail reader
  Store(path).append(big);
  Store(path).append(big);
  EXPECT_TRUE(Store(path).warnings().empty());
  EXPECT_EQ(read_records(path).records.size(), 2u);
}

TEST_F(StoreTest, NamesTheLineThatIsNotARecord) {
  const fs::path path = folder_ / "runs.jsonl";
  put(path, "no json\n{}\n");
  EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("runs.jsonl:1:2: is not JSON"), std::string::npos);
  put(path, "{\"a\": 1, \"a\": 2}\n{}\n");
  EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("runs.jsonl:1: /a: stands twice"),
            std::string::npos);
  put(path, "{}\n");
  EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("runs.jsonl:1: /schema"), std::string::npos);
}

TEST_F(StoreTest, APipeIsRejectedWithoutWaitingForAWriter) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(message_of<InputError>([&] { read_records(path); }).find("is not a regular file"), std::string::npos);
}

TEST_F(StoreTest, SaysWhatIsWrongWithAPath) {
  EXPECT_NE(message_of<InputError>([&] { Store store(folder_); }).find("is a folder"), std::string::npos);
  EXPECT_NE(message_of<InputError>([&] { read_records(folder_); }).find("is a folder"), std::string::npos);
  EXPECT_NE(message_of<InputError>([&] { read_records(folder_ / "none"); }).find("no such file"), std::string::npos);
  put(folder_ / "file", "x");
  EXPECT_NE(
      message_of<InputError>([&] { Store store(folder_ / "file" / "runs.jsonl"); }).find("cannot create the folder"),
      std::string::npos);
  EXPECT_NE(message_of<InputError>([] { Store store("/proc/runs.jsonl"); }).find("cannot be opened for writing"),
            std::string::npos);
}

TEST_F(StoreTest, ReportsThatThereIsNoRoomAndKeepsWhatWasStored) {
  const fs::path path = folder_ / "runs.jsonl";
  Store store(path);
  store.append(record("a"));
  const std::string before = content(path);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit half{before.size() * 3 / 2, before.size() * 3 / 2};
    ::setrlimit(RLIMIT_FSIZE, &half);
    const std::string message = message_of<RunError>([&] { store.append(record("b")); });
    ::_exit(message.find("could not be stored: larger than a file may be here") == std::string::npos);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(path), before);
}

TEST_F(StoreTest, WritersDoNotInterleave) {
  const fs::path path = folder_ / "runs.jsonl";
  constexpr int kWriters = 4, kRecords = 25;
  for (int writer = 0; writer < kWriters; ++writer) {
    if (const pid_t child = ::fork(); child == 0) {
      Store store(path);
      Record r = record("w");
      r.cost_source = std::string(20'000, static_cast<char>('a' + writer));  // beyond one page
      for (int i = 0; i < kRecords; ++i) store.append(r);
      ::_exit(store.warnings().empty() ? 0 : 1);
    }
  }
  for (int writer = 0; writer < kWriters; ++writer) {
    int status = 0;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  const auto records = read_records(path).records;
  ASSERT_EQ(records.size(), std::size_t{kWriters * kRecords});
  for (const Record& r : records) EXPECT_EQ(r.cost_source, std::string(20'000, r.cost_source.at(0)));
}

TEST(Digest, IsStableAndIgnoresTheOrderOfKeys) {
  EXPECT_EQ(digest(Json::parse(R"({"b":1,"a":[2]})")), digest(Json::parse(R"({"a":[2],"b":1})")));
  EXPECT_NE(digest({{"a", 1}}), digest({{"a", 2}}));
  // FNV-1a of the two bytes "{}".
  EXPECT_EQ(digest(Json::object()), "08f44b07b5901a25");
}

}  // namespace
}  // namespace sluice
