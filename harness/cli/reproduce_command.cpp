#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/passing_folder.h"
#include "harness/base/read_text.h"
#include "harness/base/source_folder.h"
#include "harness/base/visible_text.h"
#include "harness/case/profile_store.h"
#include "harness/claims/claim_page.h"
#include "harness/claims/mutation.h"
#include "harness/cli/commands.h"
#include "harness/cli/find_renderer.h"
#include "plots/findings.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

fs::path claims_folder(const ReproduceArguments& a) {
  return a.claims.empty() ? fs::path(source_folder()) / "results" / "claims" : fs::path(a.claims);
}

std::vector<std::string> chosen_papers(const ReproduceArguments& a) {
  const std::vector<std::string> known = listed_papers(claims_folder(a));
  if (a.all == !a.papers.empty())
    throw InputError("reproduce", a.all ? "give a paper or --all, not both" : "no paper given",
                     fmt::format("known: {}; or --all", fmt::join(known, ", ")));
  if (a.all) return known;
  for (const std::string& paper : a.papers)
    if (std::ranges::find(known, paper) == known.end())
      throw InputError("reproduce", "no claims of a paper '" + paper + "'", suggestion(paper, known));
  return a.papers;
}

// The stored outcomes, by group and name; none where the paper has never been recorded.
std::map<std::pair<std::string, std::string>, Outcome> stored_outcomes(const fs::path& file) {
  std::map<std::pair<std::string, std::string>, Outcome> stored;
  if (fs::exists(file))
    for (Outcome& outcome : outcomes_from_json(parse_json_file(file.string()), file.string()))
      stored[{outcome.group, outcome.name}] = outcome;
  return stored;
}

void print_table(const PaperOutcomes& paper) {
  fmt::print("{}\n", visible(paper.claims.title));
  std::string group;
  std::size_t width = 0;
  for (const Claim& claim : paper.claims.claims) width = std::max(width, claim.name.size());
  for (std::size_t i = 0; i < paper.outcomes.size(); ++i) {
    const Claim& claim = paper.claims.claims[i];
    const Outcome& o = paper.outcomes[i];
    if (claim.group != group) fmt::print("\n{} ({})\n", visible(claim.group), visible(claim.what));
    group = claim.group;
    fmt::print("  {:<{}}  {:>10}  {:>10}  {:>12}  {}{}{}\n", visible(claim.name), width, visible(published_text(claim)),
               o.ours ? to_text(*o.ours) : "-", ratio_text(claim, o), verdict_text(claim, o),
               o.direction && o.value == ClaimVerdict::not_reproduced ? ", direction " + to_text(*o.direction) : "",
               o.reason.empty() ? "" : ": " + visible(o.reason));
  }
  fmt::print("\n{}\n\n", counts_text(paper.claims.claims, paper.outcomes));
}

Json json_of(const PaperOutcomes& paper) {
  Json document = to_json(paper.outcomes);
  for (std::size_t i = 0; i < paper.outcomes.size(); ++i) {
    const Claim& claim = paper.claims.claims[i];
    Json& one = document["outcomes"][i];
    one["published"] = claim.published.number ? Json(*claim.published.number) : Json(claim.published.text);
    one["kind"] = to_text(claim.kind);
    one["source"] = claim.source;
    one["evidence"] = choice_name(claim.evidence);
  }
  document["paper"] = paper.claims.paper;
  return document;
}

void write_pages(const fs::path& folder, const std::vector<PaperOutcomes>& papers) {
  const PassingFolder passing(new_drawing_folder(folder));
  const fs::path& drawing = passing.path;
  std::vector<Chart> charts;
  for (const PaperOutcomes& paper : papers) {
    const std::string file = (folder / (paper.claims.paper + ".results.json")).string();
    const Json document = to_json(paper.outcomes);
    write_text(file, document.dump(1) + "\n");
    const PaperOutcomes stored{paper.claims, outcomes_from_json(document, file)};  // figures in the digits of the file
    page_file(folder / (paper.claims.paper + ".md")).write(paper_page(stored));
    Chart chart = paper_chart(stored);
    if (chart.spec.is_null()) continue;
    write_text(drawing / (chart.name + ".vl.json"), spec_text(chart.spec));
    charts.push_back(std::move(chart));
  }
  page_file(folder / "README.md").write(index_page(stored_papers(folder)));
  if (!charts.empty()) render_charts(find_renderer(), drawing);
  for (const Chart& chart : charts)
    picture_file(folder / (chart.name + ".svg"))
        .write(read_whole_file(drawing / (chart.name + ".svg")) + "\n" + picture_mark(chart));
}

// Prints the figures that stay reproduced whatever is changed in their scenarios.
int mutate_papers(const ReproduceArguments& a, ProfileStore& profiles) {
  Json documents = Json::array();
  std::size_t unmoved = 0;
  for (const std::string& name : chosen_papers(a)) {
    const PaperOutcomes paper = read_paper(claims_folder(a), name);
    const MutationReport report = mutate(paper.claims, paper.outcomes, profiles);
    unmoved += report.unmoved.size();
    Json list = Json::array();
    for (const UnmovedClaim& claim : report.unmoved)
      list.push_back({{"group", claim.group}, {"name", claim.name}, {"changes", claim.tried}});
    documents.push_back({{"paper", name}, {"reproduced", report.reproduced}, {"unmoved", list}});
    if (a.json) continue;
    fmt::print("{}: {} of {} reproduced figures turn\n", name, report.reproduced - std::ssize(report.unmoved),
               report.reproduced);
    for (const UnmovedClaim& claim : report.unmoved)
      fmt::print("  {}, {}: stays reproduced under {}\n", visible(claim.group), visible(claim.name),
                 claim.tried.empty() ? "no change that can be run" : fmt::format("{}", fmt::join(claim.tried, ", ")));
  }
  if (a.json) fmt::print("{}\n", Json{{"papers", documents}}.dump(2));
  return unmoved == 0 ? 0 : 1;
}

}  // namespace

int reproduce_command(const ReproduceArguments& a) {
  const fs::path folder = claims_folder(a);
  ProfileStore profiles(default_profile_folder());
  if (a.mutate && a.write) throw InputError("reproduce", "--mutate writes nothing", "leave --write out");
  if (a.mutate) return mutate_papers(a, profiles);
  if (a.write) {  // what may not be replaced is found before anything runs
    page_file(folder / "README.md");
    for (const std::string& name : chosen_papers(a)) {
      page_file(folder / (name + ".md"));
      picture_file(folder / (name + ".svg"));
    }
  }
  std::vector<PaperOutcomes> papers;
  Json documents = Json::array();
  std::vector<std::string> lost;
  for (const std::string& name : chosen_papers(a)) {
    PaperOutcomes paper{read_claims(folder / (name + ".json")), {}};
    paper.outcomes = run_claims(paper.claims, profiles);
    const auto stored = stored_outcomes(folder / (name + ".results.json"));
    for (const Outcome& now : paper.outcomes) {
      const auto before = stored.find({now.group, now.name});
      if (before != stored.end() && before->second.value == ClaimVerdict::reproduced &&
          now.value != ClaimVerdict::reproduced)
        lost.push_back(name + ", " + now.group + ", " + now.name + ": is now " + to_text(now.value));
    }
    if (a.json)
      documents.push_back(json_of(paper));
    else
      print_table(paper);
    papers.push_back(std::move(paper));
  }
  if (a.write) write_pages(folder, papers);
  if (a.json) fmt::print("{}\n", Json{{"papers", documents}, {"no_longer_reproduced", lost}}.dump(2));
  for (const std::string& one : lost) fmt::print(stderr, "sluice: was recorded as reproduced: {}\n", one);
  return lost.empty() || a.write ? 0 : 1;
}

}  // namespace sluice
