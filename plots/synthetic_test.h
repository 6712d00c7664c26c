// Made-up records for tests and for looking at charts: a chain of ranks under a synchronous schedule, with the
// failures, variants and seeds that charts must cope with.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "results/record.h"

namespace sluice::synthetic {

inline Record record(const std::string& system, int ranks, double seconds, const std::string& clock = "wall",
                     std::uint64_t seed = 1) {
  Record r;
  r.system = system;
  r.workload = "fashion_mlp";
  r.workload_facts = {.title = "MLP on Fashion-MNIST", .metric = "accuracy", .target = 0.85};
  r.cluster = clock == "wall" ? "this machine" : "flat:4";
  r.clock = choice_named<Clock>(clock).value();
  r.cost_source = clock == "wall" ? "" : "analytic";
  r.transport = clock == "wall" ? "threads" : "none";
  r.device = "cpu";
  r.ranks = ranks;
  r.batch = r.samples_per_step = 128;
  r.microbatches = ranks == 1 ? 1 : 2 * ranks;
  r.updates_per_epoch = 468;
  r.seed = seed;
  r.warmup_steps = 3;
  for (int i = 0; i < 23; ++i) r.step_seconds.push_back(i < 3 ? 3 * seconds : seconds * (1 + 0.06 * std::sin(1.7 * i)));
  for (int i = 1; i <= 12; ++i) {
    const double accuracy = 0.9 - 0.55 * std::exp(-0.3 * i) + 0.002 * static_cast<double>(seed);
    r.curve.push_back({40LL * i, 40 * i * seconds, 2.3 * std::exp(-0.2 * i), accuracy});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    MemorySplit m{.total = 0,
                  .weights = (40 << 20) / ranks,
                  .versions = 0,
                  .gradients = (40 << 20) / ranks,
                  .optimizer = (20 << 20) / ranks,
                  .activations = (ranks - rank) * (6LL << 20),
                  .buffers = 1 << 20};
    m.total = m.weights + m.versions + m.gradients + m.optimizer + m.activations + m.buffers;
    r.peak_bytes.push_back(m);
    m.total -= std::exchange(m.buffers, 0);
    if (clock == "wall") r.predicted_peak_bytes.push_back(m);
  }
  // All forwards, then all backwards (twice as long), rank after rank.
  const int p = ranks, m = r.microbatches;
  const double f = seconds / (3.0 * (m + p - 1));
  for (int rank = 0; rank < p; ++rank) {
    for (int micro = 0; micro < m; ++micro) {
      const double forward = (rank + micro) * f;
      const double backward = (m + p - 1) * f + 2 * f * (p - 1 - rank + micro);
      const std::string name = std::to_string(rank);
      r.timeline.push_back({rank, name + "F" + std::to_string(micro), forward, forward + f});
      r.timeline.push_back({rank, name + "B" + std::to_string(micro), backward, backward + 2 * f});
      if (p > 1 && rank + 1 < p)
        r.timeline.push_back({rank, name + "SEND_F" + std::to_string(micro), forward + f, forward + 1.4 * f});
    }
    r.timeline.push_back({rank, "step", 3 * (m + p - 1) * f, (3 * (m + p - 1) + 0.8) * f});
  }
  const double bubble = (p - 1.0) / (m + p - 1.0);
  r.theory = {.bubble_ratio = bubble, .in_flight = {m}, .weight_versions = {1}, .staleness = {0}};
  r.observed.bubble_ratio = bubble * 1.05;
  r.observed.span_bubble = bubble;
  r.observed.in_flight = {m};
  r.environment.machine = {.commit = "0123abc", .cpu = "A <fast> CPU & more", .load = seconds};
  r.digest = system + "/" + std::to_string(ranks) + clock + std::to_string(seed) + std::to_string(seconds);
  return r;
}

// Two clocks, two rank counts, two workloads, variants, seeds and every bad outcome.
inline std::vector<Record> records() {
  std::vector<Record> all;
  for (const char* clock : {"wall", "virtual"}) {
    all.push_back(record("single_device", 1, 0.05, clock));
    for (const int ranks : {2, 4}) {
      double seconds = 0.09 / ranks;
      for (const char* system : {"gpipe", "one_f_one_b", "interleaved_1f1b", "dualpipe", "fsdp"})
        all.push_back(record(system, ranks, seconds *= 1.07, clock));
      for (const char* variant : {"h1", "h2"}) {
        all.push_back(record("zero_bubble", ranks, seconds *= 0.9, clock));
        all.back().options = {{"variant", variant}};
        for (TimelineOp& op : all.back().timeline)  // the backward in its two halves
          if (const auto at = op.op.find('B'); at != std::string::npos) {
            TimelineOp weight = op;
            op.end = weight.start = (op.start + op.end) / 2;
            op.op[at] = 'I';
            weight.op[at] = 'W';
            all.back().timeline.push_back(weight);
          }
      }
    }
    all.push_back(record("gpipe", 4, 0.028, clock, 2));
    all.push_back(record("pipedream", 4, 0.02, clock));
    for (CurvePoint& point : all.back().curve) *point.metric -= 0.12;
    all.push_back(record("chimera", 4, 0.02, clock));
    all.back().outcome = RecordOutcome::out_of_memory;
    all.back().failed_rank = 2;
    all.back().reason = "needs 3.2 GiB of 2 GiB <on a small card> & then some more text";
    all.push_back(record("pipemare", 4, 0.02, clock));
    all.back().outcome = RecordOutcome::unsupported;
    all.back().reason = "the workload has a loop";
    all.push_back(record("piper", 4, 0.0506, clock));
  }
  for (const char* system : {"single_device", "gpipe", "one_f_one_b"}) {
    all.push_back(record(system, system[0] == 's' ? 1 : 4, system[0] == 'g' ? 0.3 : 0.5));
    all.back().workload = "translation_lstm";
    all.back().workload_facts = {.title = "LSTM, English to German",
                                 .metric = "perplexity",
                                 .metric_direction = MetricDirection::down,
                                 .target = 20};
    for (CurvePoint& point : all.back().curve) point.metric = std::exp(5.0 * (1.4 - *point.metric));
    all.back().digest += "lstm";
  }
  return all;
}

// A whole study: 5 tasks x (single_device + 5 systems) x {2, 4, 8} ranks x 5 seeds, at an equal learning rate and at
// tuned ones, with seeds that diverge or miss the target, and a divergence boundary.
inline std::vector<Record> study() {
  struct Task {
    const char *name, *title;
    double rate;
  };
  const Task tasks[] = {{"fmnist_cnn", "Fashion-MNIST, small CNN (4 convolutions, 3 linear layers)", 0.05},
                        {"fmnist_mlp", "Fashion-MNIST, MLP 784-512-512-256-128-10", 0.02},
                        {"reviews_lstm", "Movie reviews, residual LSTM", 0.1},
                        {"translation_gnmt", "English to German, GNMT with 8 layers", 0.003},
                        {"gpt_small", "Language model, 12 transformer blocks", 0.0006}};
  const char* systems[] = {"single_device", "one_f_one_b", "pipedream", "pipedream_2bw", "spectrain", "pipeoptim"};
  std::vector<Record> all;
  const auto set_rate = [](Record& r, double rate) { r.optimizer = {.learning_rate = rate, .momentum = 0.9}; };
  for (std::size_t t = 0; t < std::size(tasks); ++t) {
    for (std::size_t s = 0; s < std::size(systems); ++s) {
      for (const int ranks : {2, 4, 8}) {
        if (s == 0 && ranks > 2) continue;
        for (const bool tuned : {false, true}) {
          for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            const bool synchronous = s < 2;
            const double seconds =
                s == 0 ? 0.05 : 0.05 / ranks * (synchronous ? 1.5 : 1.05 + 0.02 * static_cast<double>(s));
            Record r = record(systems[s], s == 0 ? 1 : ranks, seconds, "virtual", seed);
            r.cluster = "flat:8";
            r.workload = tasks[t].name;
            r.workload_facts->title = tasks[t].title;
            r.workload_facts->target = 0.84;
            r.workload_facts->epochs = 3;
            // Evaluated after every other update; an asynchronous pipe fills again each time.
            r.step_seconds.assign(2 * r.curve.size(), seconds);
            for (std::size_t k = 0; k < r.curve.size(); ++k) {
              r.curve[k].step = 2 * static_cast<std::int64_t>(k) + 2;
              if (!synchronous) r.step_seconds[2 * k] *= 1 + 0.2 * ranks;
            }
            if (!synchronous) {
              r.microbatches = 1;
              for (int rank = 0; rank < ranks; ++rank) r.theory->staleness = {ranks - 1, 0};
            }
            // The staler, the slower it learns; a tuned rate mends half of it.
            const double stale = synchronous ? 0 : (s == 2 ? 0.02 : 0.006) * ranks * (tuned ? 0.5 : 1);
            const double luck = 0.004 * std::sin(7.0 * static_cast<double>(seed * 31 + s * 7 + t * 3));
            for (std::size_t k = 0; k < r.curve.size(); ++k)
              r.curve[k].metric =
                  (0.9 - stale) * (1 - std::exp(-0.45 * (1 - stale) * static_cast<double>(k + 1))) + luck;
            set_rate(r, tasks[t].rate);
            if (tuned) {
              const double chosen = tasks[t].rate * (synchronous ? 1 : 0.5);
              set_rate(r, chosen);
              r.tuning = {
                  .grid = {tasks[t].rate / 2, tasks[t].rate, 2 * tasks[t].rate},
                  .criterion = "accuracy",
                  .seed = 101,
                  .epochs = 1,
                  .chosen = chosen,
                  .results = {{.learning_rate = tasks[t].rate / 2, .value = 0.81, .digest = ""},
                              {.learning_rate = tasks[t].rate, .value = 0.83, .digest = ""},
                              {.learning_rate = 2 * tasks[t].rate, .outcome = RecordOutcome::diverged, .digest = ""}}};
            } else if (s == 2 && ranks == 8 && seed + t > 3) {
              r.outcome = RecordOutcome::diverged;
              r.diverged_at = 90 + static_cast<int>(10 * seed);
              r.reason = "at update " + std::to_string(*r.diverged_at) + ": the training loss is not finite";
              r.curve.resize(2);
              r.curve.push_back({*r.diverged_at, 1.2, std::nan(""), std::nullopt});
            }
            r.digest += r.workload + (tuned ? "tuned" : "");
            all.push_back(std::move(r));
          }
        }
      }
    }
  }
  for (std::size_t s = 0; s < std::size(systems); ++s)
    for (const int ranks : {2, 4, 8})
      for (std::uint64_t seed = 1; seed <= 5; ++seed)
        for (std::size_t k = 0; k < 7; ++k) {
          if (s == 0 && ranks > 2) continue;
          Record r = record(systems[s], s == 0 ? 1 : ranks, 0.01, "virtual", seed);
          r.cluster = "flat:8";
          r.purpose = Purpose::boundary;
          r.workload_facts->steps = 20;
          const double rate = 0.005 * std::pow(2.0, static_cast<double>(k));
          set_rate(r, rate);
          r.timeline.clear();
          r.curve.clear();
          const double limit = s < 2 ? 5 : 5 - 0.5 * ranks + 0.5 * static_cast<double>(s % 3);
          const bool diverges = static_cast<double>(k) > limit + 0.2 * static_cast<double>(seed % 3);
          for (int u = 1; u <= (diverges ? 9 : 20); ++u)
            r.curve.push_back({u, 0.01 * u, diverges ? 2.3 * u : 2.3 / u, std::nullopt});
          if (diverges) r.outcome = RecordOutcome::diverged, r.diverged_at = 10;
          r.digest += "boundary" + std::to_string(k);
          all.push_back(std::move(r));
        }
  return all;
}

}  // namespace sluice::synthetic
