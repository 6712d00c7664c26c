// From a data set on disk to what a session trains on.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/session.h"
#include "harness/model/model.h"
#include "workloads/data/dataset.h"

namespace sluice {

// A model's inputs of token ids are its text: lengths from their shapes, vocabularies from the
// embeddings that read them.
TextLimits text_limits(const ModelGraph& model);

// Read once a process for all cases that use it. Throws InputError.
std::shared_ptr<const DataSplit> data_of(const std::string& name, const ModelGraph& model);

// The part that is evaluated: test, or validation where something is chosen by it (a learning rate),
// so that no choice has seen the test part.
enum class HeldOut { test, validation };

// The held-out part is the feed's test part. Translations: BLEU of the first kDecodedSamples of them,
// by greedy decoding.
inline constexpr std::int64_t kDecodedSamples = 500;
// Only the test part is translated.
DataFeed feed_of(const std::shared_ptr<const DataSplit>& data, HeldOut held_out = HeldOut::test);

}  // namespace sluice
