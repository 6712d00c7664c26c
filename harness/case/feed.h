// From a data set on disk to what a session trains on.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/session.h"
#include "harness/model/model.h"
#include "workloads/data/dataset.h"

namespace sluice {

// What the inputs of a model that reads token ids have room for: lengths from their shapes, vocabularies from the
// embeddings that read them.
TextLimits text_limits(const ModelGraph& model);

// The data set of that name, as the model reads it. Read once a process for all cases that use it, from any thread.
// Throws InputError: it is missing or corrupt.
std::shared_ptr<const DataSplit> data_of(const std::string& name, const ModelGraph& model);

// The part that is evaluated: test, or validation where something is chosen by it (a learning rate), so that no choice
// has seen the test part.
enum class HeldOut { test, validation };

// Of translations, BLEU is measured by greedy decoding of the first test samples.
inline constexpr std::int64_t kDecodedSamples = 500;
// What a session trains on; the held-out part is the feed's test part. Only the test part is translated.
DataFeed feed_of(const std::shared_ptr<const DataSplit>& data, HeldOut held_out = HeldOut::test);

}  // namespace sluice
