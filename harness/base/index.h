// Stages, ranks and micro-batches are counted in ints and index containers without conversion; only a container's size
// needs a conversion, which is here.
#pragma once

#include <vector>

namespace sluice {

template <class Container>
int count_of(const Container& container) {
  return static_cast<int>(container.size());
}

// of(0), of(1), ..., of(count - 1): one value per rank or stage.
template <class Of>
auto list_of(int count, Of of) {
  std::vector<decltype(of(0))> list;
  for (int i = 0; i < count; ++i) list.push_back(of(i));
  return list;
}

}  // namespace sluice
