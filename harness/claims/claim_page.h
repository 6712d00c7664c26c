// The pages of results/claims: a paper's figures next to ours, and an index with the counts. They depend only on the
// claims and the stored outcomes, so a test can check whether a committed page is current.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/claims/outcome.h"
#include "plots/charts.h"

namespace sluice {

// A paper's claims with their stored outcomes, one per claim in the same order.
struct PaperOutcomes {
  PaperClaims claims;
  std::vector<Outcome> outcomes;
};

// Reads PAPER.json and PAPER.results.json of the folder. Throws InputError, also if the two do not have the same claims
// in the same order.
PaperOutcomes read_paper(const std::filesystem::path& folder, const std::string& paper);

// All papers of the folder whose outcomes are stored, in order of name.
std::vector<PaperOutcomes> stored_papers(const std::filesystem::path& folder);

// "30 figures; reproduced of checkable: headline 1 of 2, count 4 of 4. In direction only 1, ..."
std::string counts_text(std::span<const Claim> claims, std::span<const Outcome> outcomes);
// The verdict; "not run" without a scenario.
std::string verdict_text(const Claim& claim, const Outcome& outcome);
// Our effect over the published one: of figures, or of the gains of ratios ("0.532 (gain)"). "": not defined.
std::string ratio_text(const Claim& claim, const Outcome& outcome);
std::string published_text(const Claim& claim);  // with its unit and its other readings

std::string paper_page(const PaperOutcomes& paper);  // PAPER.md
Chart paper_chart(const PaperOutcomes& paper);       // PAPER.svg; a null spec if no figure has a ratio
// All papers' charts and figures, as a part of a report.
ReportPart claims_part(std::span<const PaperOutcomes> papers);
std::string index_page(std::span<const PaperOutcomes> papers);  // README.md

}  // namespace sluice
