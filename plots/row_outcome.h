// Why a row has no result, in the few words that a chart or a narrow table has room for.
#pragma once

#include <optional>
#include <string>

#include "results/compare.h"

namespace sluice {

// "OOM 23.4 / 16 GiB" (needed / the device has), "diverged at update 12", "2/5 diverged, the first at update 12",
// "failed: rank 1 left", "unsupported" (its reason is long); "" for ok. Reasons in full stand in the tables of results.
std::string short_outcome(const ComparisonRow& row);
std::string short_outcome(const Record& record);

// "out of memory": the outcome's name as a reader writes it.
std::string outcome_words(RecordOutcome outcome);

// Bytes of the largest rank of a row's seed that needs least; none unless all seeds are out of memory.
std::optional<double> needed_memory(const ComparisonRow& row);

// Bytes of the smallest device that was too small for a row; none where every row fits.
std::optional<double> exceeded_memory(const Comparison& comparison);

}  // namespace sluice
