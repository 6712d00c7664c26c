#include "harness/plan/recompute_option.h"

#include "harness/pipeline/choice_option.h"

namespace sluice {

static const ChoiceOption<Recomputation>& option() {
  static const ChoiceOption<Recomputation> declared(
      "recompute",
      "run the forward again before the backward: no, all, or needed (not where the backward follows its forward at "
      "once, so that nothing has to be dropped)",
      {{"no", Recomputation::no}, {"needed", Recomputation::needed}, {"all", Recomputation::all}});
  return declared;
}

OptionSpec recompute_option() { return training_only(option().spec()); }

Recomputation recomputation(const Options& options) { return option()(options); }

WeightRule flush_with_recompute(const ScheduleProblem&, const Options& options) {
  using Recompute = WeightRule::Recompute;
  const Recomputation chosen = recomputation(options);
  return {.recompute = chosen == Recomputation::no ? Recompute::none : Recompute::forward_weights,
          .keep_if_next = chosen == Recomputation::needed};
}

std::optional<double> fill_drain_bubble(int ranks, int forwards, Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::no:
      return fill_drain_bubble(ranks, forwards);
    case Recomputation::all:
      return 3.0 * (ranks - 1) / (4.0 * forwards + 3.0 * (ranks - 1));
    case Recomputation::needed:
      return {};
  }
  return {};
}

}  // namespace sluice
