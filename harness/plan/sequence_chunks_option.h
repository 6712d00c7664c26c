// The option `sequence_chunks` of systems that cut sequences into chunks.
#pragma once

#include "harness/base/options.h"

namespace sluice {

inline OptionSpec sequence_chunks_option() {
  return training_only(
      {"sequence_chunks", "4", "chunks that the sequences of every micro-batch are cut into; 1: they stay whole"});
}

inline int given_sequence_chunks(const Options& options) { return options.integer("sequence_chunks"); }

}  // namespace sluice
