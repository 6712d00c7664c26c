// From a data set on disk to the data of a session.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/session.h"
#include "harness/model/model.h"
#include "workloads/data/dataset.h"

namespace sluice {

// Limits of the inputs of a model that reads token ids: lengths from their shapes, vocabularies from the embeddings
// that read them.
TextLimits text_limits(const ModelGraph& model);

// The data set with this name, in the form that the model reads. A process reads it once for all cases that use it,
// from any thread. Throws InputError: it is missing or corrupt.
std::shared_ptr<const DataSplit> data_of(const std::string& name, const ModelGraph& model);

// The part for evaluation: test, or validation if a choice (a learning rate) depends on it, so that no choice depends
// on the test part.
enum class HeldOut { test, validation };

// For translations, BLEU is measured by greedy decoding of the first test samples.
inline constexpr std::int64_t kDecodedSamples = 500;
// The data of a session; the held-out part is the feed's test part. Only the test part is translated.
DataFeed feed_of(const std::shared_ptr<const DataSplit>& data, HeldOut held_out = HeldOut::test);

}  // namespace sluice
