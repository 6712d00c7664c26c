// EdgePipe's partition (Hu et al., arXiv 2110.14895; released as PipeEdge, DSD 2022): a chain of layers over devices of
// several types, forward only. It minimises the period, the longest time that a stage computes or a transfer between
// two stages takes for one micro-batch.
//
//   h[i][n][u]: layers [0, i) are placed on n[t] devices of every type t, the next stage is on type u;
//               the value is the longest time so far
//   h[j][n + u][v] = min over i of max(h[i][n][u], seconds of [i, j) on u, bytes(j) / bandwidth(u, v))
//
// It is exact: devices of one type are interchangeable. Whether a range of layers fits into a type's memory is asked
// for every range, since a longer range that ends at a thinner cut may fit where a shorter one does not. O(L^2 T^2 prod
// (n_t + 1)) time. Of plans with the least period it takes those with the fewest stages, then with the fewest bytes
// over cuts, then with the lower type first.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

struct TypedChain {
  int layers = 0;
  std::vector<int> counts;                     // devices of every type
  std::vector<std::vector<double>> seconds;    // [type][layer], of one micro-batch
  std::vector<double> bytes;                   // [layers + 1]: over the cut before layer i; ends are not sent
  std::vector<std::vector<double>> bandwidth;  // [from type][to type], bytes/s
  std::function<bool(int type, int first, int last)> fits = {};  // layers [first, last); none: always
};

struct TypedStage {
  int type = 0, first = 0, last = 0;  // layers [first, last)
  friend bool operator==(const TypedStage&, const TypedStage&) = default;
};

struct TypedPartition {
  double period = 0;               // seconds; infinity: nothing fits
  std::vector<TypedStage> stages;  // in order
  std::int64_t states = 0;         // reached
};

// Throws InputError if the table of states would be too large (too many types of devices).
TypedPartition partition_over_types(const TypedChain& chain);

// The period of given stages.
double period_of(const TypedChain& chain, const std::vector<TypedStage>& stages);

// What the released scheduler allows a stage to hold: memory > the layers' own + `in` messages that wait to be taken +
// `out` that wait to be sent + its input and output. bytes[0] is the model's input. All in bytes.
struct StageBuffers {
  int in = 2, out = 2;
};
bool fits_with_buffers(double memory, double layers, const std::vector<double>& bytes, int first, int last,
                       const StageBuffers& buffers);

}  // namespace sluice
