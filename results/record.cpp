#include "results/record.h"

namespace sluice {

// Every member and what it holds is copied, moved or destroyed here alone, not again in each file that has one.
Record::Record() = default;
Record::Record(const Record& other) = default;
Record::Record(Record&& other) noexcept = default;
Record& Record::operator=(const Record& other) = default;
Record& Record::operator=(Record&& other) noexcept = default;
Record::~Record() = default;

}  // namespace sluice
