// The rows of a comparison, from records that differ in their seeds, and what tells rows of one system apart.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

// One row for the records that differ in their seed alone, labelled by what tells it from others of its system. The
// relation to a baseline is left open.
std::vector<ComparisonRow> comparison_rows(std::span<const Record* const> records);

// Of records that each stand for a row: what tells it from others of its system ("variant=h1"), "" where its system
// stands alone.
std::vector<std::string> telling_options(std::span<const Record* const> records);

}  // namespace sluice
