#include "harness/claims/claim_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "harness/base/markdown_text.h"
#include "harness/base/visible_text.h"
#include "plots/chart_template.h"
#include "plots/markdown.h"
#include "plots/report.h"
#include "plots/style.h"

namespace sluice {

namespace {

std::string tolerance_text(const Claim& claim) {
  if (claim.compare == Compare::above) return "above";
  const Tolerance& t = claim.tolerance;
  std::string text = t.relative > 0   ? fmt::format("{:g} %", 100 * t.relative)
                     : t.absolute > 0 ? fmt::format("{:g}", t.absolute)
                                      : "exact";
  if (t.relative > 0 && claim.effect == Effect::gain) text += " of the gain";
  if (t.relative > 0 && t.absolute > 0) text += fmt::format(" or {:g}", t.absolute);
  return claim.compare == Compare::at_most    ? "at most, " + text
         : claim.compare == Compare::at_least ? "at least, " + text
                                              : text;
}

// Our effect over the published one.
std::optional<double> ratio(const Claim& claim, const Outcome& outcome) {
  if (!outcome.ours || !outcome.ours->number || !claim.published.number) return {};
  const double published = effect_of(claim, *claim.published.number);
  if (published == 0) return {};
  return effect_of(claim, *outcome.ours->number) / published;
}

std::string ours_text(const Claim& claim, const Outcome& outcome, const std::string& none) {
  if (!outcome.ours) return none;
  return to_text(*outcome.ours) + (claim.unit.empty() || claim.order ? "" : " " + claim.unit);
}

std::string variation_text(const VariationOutcome& variation) {
  std::string text = variation.what + ":";
  for (const VariedFigure& one : variation.figures)
    text += fmt::format("{} {} gives {}", &one == &variation.figures.front() ? "" : ",", one.value.dump(),
                        to_text(one.ours));
  if (variation.needed.empty()) return text + "; none of them gives the published figure";
  return text + "; the published figure would need " + variation.needed;
}

// With what a claim says otherwise than the first of its group, under which its table stands.
std::string why_text(const Claim& claim, const Claim& first, const Outcome& outcome) {
  std::string text = outcome.reason;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (claim.differences != first.differences) add("differences: " + claim.differences);
  if (claim.kind != first.kind) add("kind: " + to_text(claim.kind));
  if (claim.what != first.what) add(claim.what);
  if (claim.source != first.source || claim.evidence != first.evidence)
    add(claim.source + " (reading: " + choice_name(claim.evidence) + ")");
  if (claim.scenario && claim.tolerance.reason != first.tolerance.reason && !claim.tolerance.reason.empty())
    add("tolerance: " + claim.tolerance.reason);
  if (claim.order && claim.order->tie > 0)
    add(fmt::format("~: closer than the model's error of {:g} %", 100 * claim.order->tie));
  for (const VariationOutcome& open : outcome.open) add("open: " + variation_text(open));
  for (const VariationOutcome& experiment : outcome.experiments) add("varied: " + variation_text(experiment));
  return text;
}

constexpr const char* kMark =
    "<!-- Made by: sluice reproduce {} --write; a test compares it with the claims and their stored outcomes. -->\n";

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

// What the claims of a group say alike.
void write_group_heading(const Claim& first, std::string& page) {
  page += fmt::format("\n## {}\n\n{}. Kind: {}. Source: {} (reading: {}).", markdown_prose(capital(first.group)),
                      markdown_prose(capital(first.what)), to_text(first.kind), markdown_prose(first.source),
                      choice_name(first.evidence));
  if (!first.differences.empty()) page += " Differences: " + markdown_prose(first.differences) + ".";
  if (first.scenario && !first.tolerance.reason.empty())
    page += fmt::format(" Tolerance, {}: {}.", tolerance_text(first), markdown_prose(first.tolerance.reason));
  page += "\n\n";
  page += markdown_head({"figure", "published", "ours", "ours / published", "tolerance", "value", "direction", "why"});
}

}  // namespace

std::string ratio_text(const Claim& claim, const Outcome& outcome) {
  const std::optional<double> value = ratio(claim, outcome);
  if (!value) return "";
  return fmt::format("{:.3f}{}", *value, claim.effect == Effect::gain ? " (gain)" : "");
}

std::string published_text(const Claim& claim) {
  std::string text = to_text(claim.published);
  for (const double reading : claim.other_readings) text += " or " + to_text(Figure{reading, {}});
  return text + (claim.unit.empty() || claim.order ? "" : " " + claim.unit);
}

std::string verdict_text(const Claim& claim, const Outcome& outcome) {
  const std::string text = claim.scenario || claim.order ? to_text(outcome.value) : "not run";
  return text + (counts(claim.evidence) ? "" : " (" + choice_name(claim.evidence) + ": not counted)");
}

std::string counts_text(std::span<const Claim> claims, std::span<const Outcome> outcomes) {
  const Counts all = count(claims, outcomes);
  std::string text = fmt::format("{} figures; reproduced of checkable:", all.figures), separator = " ";
  for (const ClaimKind kind : kClaimKinds) {
    const Counts of_kind = count(claims, outcomes, kind);
    if (of_kind.checkable() == 0) continue;
    text += fmt::format("{}{} {} of {}", separator, to_text(kind), of_kind.reproduced, of_kind.checkable());
    separator = ", ";
  }
  if (all.checkable() == 0) text += " none checkable";
  return text + fmt::format(". In direction only {}, not reproduced {}; not comparable {}, not counted {}.",
                            all.direction_only, all.not_reproduced, all.not_comparable, all.not_counted);
}

PaperOutcomes read_paper(const std::filesystem::path& folder, const std::string& paper) {
  PaperOutcomes result{read_claims(folder / (paper + ".json")), {}};
  const std::string stored = (folder / (paper + ".results.json")).string();
  result.outcomes = outcomes_from_json(parse_json_file(stored), stored);
  const auto same = [](const Claim& claim, const Outcome& outcome) {
    return claim.name == outcome.name && claim.group == outcome.group;
  };
  if (!std::ranges::equal(result.claims.claims, result.outcomes, same))
    throw InputError(stored, "does not hold the claims of " + paper + ".json",
                     "run sluice reproduce " + paper + " --write");
  return result;
}

std::vector<PaperOutcomes> stored_papers(const std::filesystem::path& folder) {
  std::vector<PaperOutcomes> all;
  for (const std::string& paper : listed_papers(folder))
    if (std::filesystem::exists(folder / (paper + ".results.json"))) all.push_back(read_paper(folder, paper));
  return all;
}

std::string paper_page(const PaperOutcomes& paper) {
  const PaperClaims& claims = paper.claims;
  std::string page = fmt::format(fmt::runtime(kMark), claims.paper);
  page += fmt::format("# {}\n\n{}.\n", markdown_prose(claims.title), markdown_prose(claims.citation));
  if (!claims.set_up.empty()) page += "\n" + markdown_prose(claims.set_up) + "\n";
  page += "\n" + counts_text(claims.claims, paper.outcomes) + "\n";
  page += fmt::format(
      "\nRun them: `sluice reproduce {}`. The scenarios stand in `{}.json`, what they gave in "
      "`{}.results.json`.\n",
      claims.paper, claims.paper, claims.paper);
  if (!paper_chart(paper).spec.is_null())
    page += fmt::format("\n![Ours over published, with the tolerance]({}.svg)\n", claims.paper);
  const Claim* first = nullptr;  // of the group
  for (std::size_t i = 0; i < claims.claims.size(); ++i) {
    const Claim& claim = claims.claims[i];
    const Outcome& outcome = paper.outcomes[i];
    if (i == 0 || claims.claims[i - 1].group != claim.group) {
      first = &claim;
      write_group_heading(claim, page);
    }
    page += "|" + markdown_cell(markdown_prose(claim.name)) + markdown_cell(markdown_prose(published_text(claim))) +
            markdown_cell(markdown_prose(ours_text(claim, outcome, "-"))) + markdown_cell(ratio_text(claim, outcome)) +
            markdown_cell(claim.scenario ? tolerance_text(claim) : "-") + markdown_cell(verdict_text(claim, outcome)) +
            markdown_cell(outcome.direction ? to_text(*outcome.direction) : "-") +
            markdown_cell(markdown_prose(why_text(claim, *first, outcome))) + "\n";
  }
  return page;
}

Chart paper_chart(const PaperOutcomes& paper) {
  const std::string title = paper.claims.title + ": ours over published";
  Json values = Json::array(), rows = Json::array();
  for (std::size_t i = 0; i < paper.outcomes.size(); ++i) {
    const Claim& claim = paper.claims.claims[i];
    const Outcome& outcome = paper.outcomes[i];
    const std::optional<double> ours = ratio(claim, outcome);
    if (!ours) continue;
    const double band = allowance(claim) / std::abs(effect_of(claim, *claim.published.number));
    const bool bounded_above = claim.compare == Compare::equal || claim.compare == Compare::at_most;
    const std::string row = claim.group + ", " + claim.name;
    rows.push_back(row);
    const auto clipped = [](double ratio) { return std::clamp(std::round(ratio * 1e4) / 1e4, 0.5, 1.5); };
    values.push_back({{"row", row},
                      {"ratio", clipped(*ours)},
                      {"low", clipped(claim.compare == Compare::at_most ? 0 : 1 - band)},
                      {"high", clipped(bounded_above ? 1 + band : 2)},
                      {"verdict", to_text(outcome.value)}});
  }
  if (values.empty()) return {paper.claims.paper, title, nullptr};
  return {paper.claims.paper, title,
          filled_chart("claims", title,
                       {"band: the tolerance; of a ratio, its gain is compared; outside 0.5 to 1.5 at the edge"},
                       {{"values", std::move(values)}, {"order", std::move(rows)}})};
}

ReportPart claims_part(std::span<const PaperOutcomes> papers) {
  ReportPart part{.id = "claims", .heading = "Published figures and ours", .text = "", .table = "", .charts = {}};
  std::vector<Claim> claims;
  std::vector<Outcome> outcomes;
  const auto cell = [](const std::string& text, bool is_text = false) {
    return std::string(is_text ? "<td class=\"text\">" : "<td>") + escape_html(text) + "</td>";
  };
  std::string rows;
  for (const PaperOutcomes& paper : papers) {
    claims.insert(claims.end(), paper.claims.claims.begin(), paper.claims.claims.end());
    outcomes.insert(outcomes.end(), paper.outcomes.begin(), paper.outcomes.end());
    if (Chart chart = paper_chart(paper); !chart.spec.is_null()) {
      chart.name = "claims-" + chart.name;
      chart.records = paper.claims.title;
      part.charts.push_back(std::move(chart));
    }
    for (std::size_t i = 0; i < paper.outcomes.size(); ++i) {
      const Claim& claim = paper.claims.claims[i];
      const Outcome& outcome = paper.outcomes[i];
      rows += "<tr>" + cell(paper.claims.title, true) + cell(claim.group + ", " + claim.name, true) +
              cell(to_text(claim.kind), true) + cell(published_text(claim)) + cell(ours_text(claim, outcome, "–")) +
              cell(ratio_text(claim, outcome)) + cell(claim.scenario ? tolerance_text(claim) : "–") +
              cell(verdict_text(claim, outcome), true) + cell(shortened(outcome.reason, 200), true) + "</tr>\n";
    }
  }
  part.text = counts_text(claims, outcomes);
  part.table =
      "<div><div class=\"scroll\" id=\"claims-records\"><table class=\"sort\"><thead><tr><th>paper</th>"
      "<th class=\"text\">figure</th><th class=\"text\">kind</th><th>published</th><th>ours</th><th>ours "
      "/<br>published</th><th>tolerance</th>"
      "<th class=\"text\">value</th><th class=\"text\">why</th></tr></thead><tbody>\n" +
      rows + "</tbody></table></div></div>\n";
  return part;
}

namespace {

// The headlines of the papers, or of the measurements, after a sentence that counts them.
std::string headline_table(std::span<const PaperOutcomes> papers, bool measurements) {
  Counts counts;
  int not_run = 0;
  std::string rows;
  for (const PaperOutcomes& paper : papers) {
    if (paper.claims.measurements != measurements) continue;
    counts = counts + count(paper.claims.claims, paper.outcomes, ClaimKind::headline);
    for (std::size_t i = 0; i < paper.outcomes.size(); ++i) {
      const Claim& claim = paper.claims.claims[i];
      const Outcome& outcome = paper.outcomes[i];
      if (claim.kind != ClaimKind::headline) continue;
      not_run += !claim.scenario && !claim.order;
      rows += "|" + markdown_cell(fmt::format("[{}]({}.md)", markdown_text(paper.claims.title), paper.claims.paper)) +
              markdown_cell(markdown_prose(claim.group + ": " + claim.name)) +
              markdown_cell(markdown_prose(published_text(claim))) +
              markdown_cell(markdown_prose(ours_text(claim, outcome, "-"))) +
              markdown_cell(verdict_text(claim, outcome)) + markdown_cell(choice_name(claim.evidence)) +
              markdown_cell(markdown_prose(shortened(outcome.reason, 200))) + "\n";
    }
  }
  return fmt::format("{} of {} that can be checked are reproduced, {} more in direction only; {} were not run.\n\n",
                     counts.reproduced, counts.checkable(), counts.direction_only, not_run) +
         markdown_head({"paper", "figure", "published", "ours", "verdict", "reading", "why"}) + rows;
}

}  // namespace

std::string index_page(std::span<const PaperOutcomes> papers) {
  std::string page = fmt::format(fmt::runtime(kMark), "--all");
  page +=
      "# Published figures rerun\n\nPublished figures of which Sluice can compute its own: the source, what was run, "
      "and whether they agree. `sluice reproduce PAPER` runs the figures of one paper, `--all` those of all papers, "
      "and "
      "`--mutate` tests that each verdict depends on what is run. [results/README.md](../README.md) explains the "
      "fields.\n\n## Headlines of papers\n\nFigures of an abstract or of the main table of results, from Sluice's own "
      "costs; also those that Sluice has not run. The tolerance of a ratio applies to its gain (the ratio less 1). ";
  page += headline_table(papers, false);
  page += "\n## Measurements\n\nAbsolute figures that others or we measured on GPUs, from costs by shape. ";
  page += headline_table(papers, true);
  page +=
      "\n## Counts by kind\n\nReproduced figures of checkable ones. A figure is checkable where the published set-up "
      "says enough to run it; figures from memory, those that costs are fitted on, and those that follow from counted "
      "ones never count. End to end: other "
      "times and memory from Sluice's own costs. Measured times: simulated from operation times that the authors "
      "measured. Formula: closed formulas, and schedules of unit times. Count: parameters, bytes, weight versions, "
      "messages. Authors' program: what their released program gives for the same input. The kinds are not added "
      "up.\n\n";
  std::vector<std::string> heading = {"paper"};
  for (const ClaimKind kind : kClaimKinds) heading.push_back(to_text(kind));
  heading.insert(heading.end(), {"not comparable", "not counted"});
  page += markdown_head(heading);
  using Row = std::map<ClaimKind, Counts>;
  const auto line = [](const std::string& title, Row& row) {
    std::string text = "|" + markdown_cell(title);
    Counts all;
    for (const ClaimKind kind : kClaimKinds) {
      const Counts& counts = row[kind];
      all = all + counts;
      text +=
          markdown_cell(counts.checkable() == 0 ? "-" : fmt::format("{} of {}", counts.reproduced, counts.checkable()));
    }
    return text + markdown_cell(std::to_string(all.not_comparable)) + markdown_cell(std::to_string(all.not_counted)) +
           "\n";
  };
  for (const bool measurements : {false, true}) {
    Row all;
    for (const PaperOutcomes& paper : papers) {
      if (paper.claims.measurements != measurements) continue;
      Row row;
      for (const ClaimKind kind : kClaimKinds) {
        row[kind] = count(paper.claims.claims, paper.outcomes, kind);
        all[kind] = all[kind] + row[kind];
      }
      page += line(fmt::format("[{}]({}.md)", markdown_text(paper.claims.title), paper.claims.paper), row);
    }
    page += line(measurements ? "all measurements" : "all papers", all);
  }
  return page;
}

}  // namespace sluice
