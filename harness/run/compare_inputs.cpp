#include "harness/run/compare_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "harness/base/json.h"
#include "harness/case/feed.h"
#include "harness/case/file_digests.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/exec/word_hash.h"

namespace sluice {

namespace {

std::string digest_of(const DataSplit& data) {
  std::uint64_t hash = 0;
  const auto add = [&hash](const auto& values) {
    const std::size_t size = values.size();
    hash = word_hash(&size, sizeof size, word_hash(values.data(), size * sizeof values[0], hash));
  };
  for (const Dataset* part : {&data.train, &data.validation, &data.test}) {
    add(part->pixels);
    add(part->labels);
    for (const TokenColumn& column : part->columns) add(column.ids);
    add(part->targets.ids);
  }
  for (const std::vector<std::string>& sentence : data.references)
    for (const std::string& word : sentence) add(word);
  return fmt::format("{:016x}", hash);
}

// {workload: {"data": name, "digest": 16 digits, "source": where it was found}}, without what cannot be read here.
Json data_read_here(const std::vector<RunCase>& cases) {
  Json read = Json::object();
  std::set<std::string> tried;
  for (const RunCase& c : cases) {
    const Workload& workload = find_workload_or_profile(c.workload, c.costs, "workload");
    if (!runs_as_processes(c) || workload.dataset == "synthetic" || !tried.insert(c.workload).second) continue;
    try {
      const auto data = data_of(workload.dataset, workload.model);
      read[c.workload] = {{"data", workload.dataset}, {"digest", digest_of(*data)}, {"source", data->source}};
    } catch (const InputError&) {
    }
  }
  return read;
}

// "rank 2", "ranks 1, 3": those whose text is not the first one's. Empty: none.
std::string ranks_that_differ(const std::vector<std::string>& texts) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < texts.size(); ++r)
    if (texts[r] != texts[0]) ranks.push_back(r);
  return ranks.empty() ? "" : fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

constexpr const char* kAdvice = "give every rank the same files and the same command line";

// {what: {"file": where this process read it, "digest"}} for every file of the case.
Json files_read_here(const RunCase& c) {
  Json files = Json::object();
  const auto add = [&](const CaseFile& file) {
    std::error_code none;
    const std::string place = std::filesystem::absolute(file.file, none).string();
    files[file.what] = {{"file", place}, {"digest", file.digest}};
  };
  for (const CaseFile& file : files_of(c)) add(file);
  if (!c.workload_digest.empty()) add({"workload", c.workload, c.workload_digest});
  return files;
}

// Throws where both have read the file for the same purpose, but other contents.
void compare_files(const std::string& where, const Json& first, const Json& other, std::size_t rank) {
  for (const auto& [what, file] : first.items()) {
    if (!other.contains(what) || other.at(what).at("digest") == file.at("digest")) continue;
    throw AgreedError(
        where,
        fmt::format("ranks 0 and {} read different contents of '{}': rank 0 {}, rank {} {}", rank, what,
                    file.at("file").get<std::string>(), rank, other.at(what).at("file").get<std::string>()),
        kAdvice);
  }
}

void compare_cases(ProcessGroup& processes, const std::vector<RunCase>& cases) {
  Json digests = Json::array();
  for (const RunCase& c : cases) digests.push_back(digest_of(c));
  const std::vector<std::string> all = processes.all_gather(digests.dump());
  const std::string ranks = ranks_that_differ(all);
  if (ranks.empty()) return;
  // The first case that is not everybody's. Some process may have fewer.
  std::size_t k = 0;
  const auto alike = [&] {
    std::vector<std::string> names;
    for (const std::string& text : all) {
      const Json list = Json::parse(text);
      if (k >= list.size()) return false;
      names.push_back(list[k].dump());
    }
    return ranks_that_differ(names).empty();
  };
  while (alike()) ++k;
  const Json own = k < cases.size() ? Json{{"case", to_json(cases[k])}, {"files", files_read_here(cases[k])}}
                                    : Json{{"case", Json()}, {"files", Json::object()}};
  const std::string where = fmt::format("case {} of the sweep", k + 1);
  const std::vector<std::string> theirs = processes.all_gather(own.dump());
  const Json rank_0 = Json::parse(theirs[0]), &first = rank_0.at("case");
  for (std::size_t r = 1; r < theirs.size(); ++r) {
    const Json rank_r = Json::parse(theirs[r]), &other = rank_r.at("case");
    if (other == first) continue;
    compare_files(where, rank_0.at("files"), rank_r.at("files"), r);
    std::set<std::string> keys;
    for (const Json& json : {first, other})
      if (json.is_object())
        for (const auto& item : json.items()) keys.insert(item.first);
    for (const std::string& key : keys) {
      const auto value = [&](const Json& json) {
        return json.is_object() && json.contains(key) ? json.at(key).dump() : std::string("not there");
      };
      if (value(first) != value(other))
        throw AgreedError(where,
                          fmt::format("differs between rank 0 and {}: its {} is {} on rank 0, {} on rank {}", ranks,
                                      key, value(first), value(other), r),
                          kAdvice);
    }
  }
  throw AgreedError(where, "differs between rank 0 and " + ranks, kAdvice);
}

void compare_data(ProcessGroup& processes, const std::vector<RunCase>& cases) {
  std::vector<Json> all;
  for (const std::string& text : processes.all_gather(data_read_here(cases).dump())) all.push_back(Json::parse(text));
  for (std::size_t r = 1; r < all.size(); ++r)
    for (const auto& [workload, first] : all[0].items()) {
      if (!all[r].contains(workload) || all[r].at(workload).at("digest") == first.at("digest")) continue;
      const auto source = [&](const Json& data) { return data.at("source").get<std::string>(); };
      throw AgreedError(fmt::format("data '{}'", first.at("data").get<std::string>()),
                        fmt::format("ranks 0 and {} read different contents: rank 0 {}, rank {} {}", r, source(first),
                                    r, source(all[r].at(workload))),
                        kAdvice);
    }
}

}  // namespace

void compare_inputs(ProcessGroup& processes, const std::vector<RunCase>& cases) {
  compare_cases(processes, cases);
  compare_data(processes, cases);
}

}  // namespace sluice
