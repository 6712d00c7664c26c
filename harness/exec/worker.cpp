#include "harness/exec/worker.h"

#include <stdexcept>
#include <string>

namespace sluice {

static std::logic_error not_sharded(StageId stage) {
  return std::logic_error("the worker has no shards of stage " + std::to_string(stage.value));
}

bool Worker::compute_in_buckets(const Instruction&, const std::function<void(const Buffer&)>&) { return false; }
Worker::Gathering Worker::begin_gather(StageId stage) { throw not_sharded(stage); }
void Worker::free_weights(StageId stage) { throw not_sharded(stage); }
Worker::Buffer Worker::begin_reduce_scatter(StageId stage) { throw not_sharded(stage); }
void Worker::end_reduce_scatter(StageId stage) { throw not_sharded(stage); }
void Worker::move_stash(const Instruction& move) {
  throw std::logic_error("the worker moves no stashes: " + to_text(move));
}
Worker::Buffer Worker::begin_copies(const Instruction&) { throw std::logic_error("the worker has no copies"); }
void Worker::end_copies(const Instruction&) { throw std::logic_error("the worker has no copies"); }
Worker::Buffer Worker::begin_norm() { throw std::logic_error("the worker has no gradients to clip"); }
void Worker::clip() { throw std::logic_error("the worker has no gradients to clip"); }
void Worker::add_reduced(StageId stage, const void*) { throw not_sharded(stage); }

}  // namespace sluice
