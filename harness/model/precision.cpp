#include "harness/model/precision.h"

namespace sluice {

Storage::Storage(Precision precision, AttentionScores scores) : attention(scores) {
  if (precision == Precision::fp32) return;
  activation = weight = gradient = Bytes(2);
  master = Bytes(4);
  if (precision == Precision::mixed_fp32_gradients) gradient = Bytes(4);
  if (precision == Precision::mixed_two_gradients) master = Bytes(8);
}

}  // namespace sluice
