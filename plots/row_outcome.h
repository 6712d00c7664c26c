// Why a row has no result, in a few words for a chart or a narrow table.
#pragma once

#include <optional>
#include <string>

#include "results/compare.h"

namespace sluice {

// "OOM 23.4 / 16 GiB" (needed / the device has), "diverged at update 12", "2/5 diverged, the first at update 12",
// "failed: rank 1 left", "unsupported" (its reason is long); "" for ok. The tables of results have the full reasons.
std::string short_outcome(const ComparisonRow& row);
std::string short_outcome(const Record& record);

// "out of memory": the outcome's name for readers.
std::string outcome_words(RecordOutcome outcome);

// Bytes of the largest rank of a row's seed with the lowest need; none unless all seeds are out of memory.
std::optional<double> needed_memory(const ComparisonRow& row);

// Bytes of the smallest device that was too small for a row; none if every row fits.
std::optional<double> exceeded_memory(const Comparison& comparison);

}  // namespace sluice
