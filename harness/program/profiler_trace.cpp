#include "harness/program/profiler_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/read_text.h"
#include "harness/base/stop.h"
#include "harness/program/trace_ranges.h"

namespace sluice {

TimeSpans merged(std::vector<TimeSpan> intervals) {
  std::ranges::sort(intervals, {}, &TimeSpan::start);
  TimeSpans result;
  for (const TimeSpan& i : intervals) {
    if (!(i.end > i.start)) continue;
    if (!result.empty() && i.start <= result.back().end)
      result.back().end = std::max(result.back().end, i.end);
    else
      result.push_back(i);
  }
  return result;
}

TimeSpans without(const TimeSpans& intervals, const TimeSpans& removed) {
  TimeSpans result;
  auto next = removed.begin();
  for (TimeSpan left : intervals) {
    while (next != removed.end() && next->end <= left.start) ++next;
    for (auto r = next; r != removed.end() && r->start < left.end; ++r) {
      if (r->start > left.start) result.push_back({left.start, r->start});
      left.start = r->end;
    }
    if (left.end > left.start) result.push_back(left);
  }
  return result;
}

double seconds_in(const TimeSpans& intervals, double start, double end) {
  double sum = 0;
  for (auto i = std::ranges::lower_bound(intervals, start, {}, &TimeSpan::end); i != intervals.end(); ++i) {
    if (i->start >= end) break;
    sum += std::max(std::min(i->end, end) - std::max(i->start, start), 0.0);
  }
  return sum;
}

namespace {

constexpr std::size_t kMaxTraceBytes = std::size_t{1} << 31;
constexpr const char* kProjectedStart = "Projected Start (ns)";  // of Nsight Systems
constexpr double kMaxMicroseconds = 1e16;                        // 300 years

bool holds_any(const std::string& text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != std::string::npos; });
}

// What is kept of one file.
struct Events {
  struct Range {
    NamedOp op;
    double start = 0, end = 0;
  };
  struct Kernel {
    std::int64_t correlation = 0;
    TimeSpan time;
  };
  std::string file;
  std::optional<int> rank;
  int world_size = 0;
  std::int64_t base_nanoseconds = 0;  // of the clock of its times
  std::vector<Range> ranges;
  std::vector<TimeSpan> steps;                         // of torch.profiler
  std::vector<double> optimizer_steps;                 // their starts
  std::vector<TimeSpan> receives, sends, collectives;  // on the host
  std::vector<TimeSpan> host_ops;                      // without communication
  std::vector<TimeSpan> backward_ops;                  // those of autograd, among the host ops
  std::vector<double> differentiable;                  // starts of host ops whose gradient autograd computes later
  std::unordered_map<std::int64_t, double> launches;
  std::vector<Kernel> kernels;
  std::vector<TimeSpan> gpu_collectives;
  // Of Nsight Systems: whether the ranges are projected on the GPU, and of which processes.
  bool projected = false;
  std::set<std::int64_t> processes;
  // Of a trace of sluice: ranks are its lanes.
  std::map<int, std::vector<Range>> lanes;
  std::map<int, int> rank_of_lane;  // from the lanes' places: each rank's ops, and below them its transfers
  std::map<std::int64_t, std::pair<int, double>> open_messages;  // id -> receiving rank, start
  std::map<int, std::vector<TimeSpan>> communication;            // per rank
  std::set<std::pair<int, int>> edges;
};

// The numbers in "rank 1, stage 3".
std::optional<int> number_after(const std::string& text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + word.size();
  return stage_in(text.substr(begin, text.find_first_not_of("0123456789", begin) - begin));
}

class EventReader {
 public:
  // array: the JSON pointer of the events.
  EventReader(std::string file, std::string array, const std::vector<PatternSet>& sets)
      : array_(std::move(array)), sets_(sets) {
    events_.file = std::move(file);
  }

  void add(std::size_t index, const Json& event) {
    if (index % 4096 == 0) stop_now();
    const std::string pointer = fmt::format("{}/{}", array_, index);
    if (!event.is_object()) throw InputError(events_.file + ": " + pointer, "must be an object");
    if (event.contains(kProjectedStart)) return add_projected(JsonReader(event, events_.file, pointer));
    const std::string phase = text(event, "ph"), category = text(event, "cat");
    if (phase == "b" || phase == "e") {
      if (category == "message") add_message(JsonReader(event, events_.file, pointer), phase == "b");
      return;
    }
    if (phase == "s" && category == "fwdbwd")
      events_.differentiable.push_back(
          1e-6 * JsonReader(event, events_.file, pointer).number("ts", -kMaxMicroseconds, kMaxMicroseconds));
    if (phase == "M" && text(event, "name") == "thread_sort_index") add_lane(JsonReader(event, events_.file, pointer));
    if (phase != "X") return;
    const std::string name = text(event, "name");
    const Kind kind = kind_of(category, name);
    if (kind == Kind::other) return;
    JsonReader in(event, events_.file, pointer);
    TimeSpan time;
    time.start = in.number("ts", -kMaxMicroseconds, kMaxMicroseconds);
    time.end = time.start + in.number_or("dur", 0, 0, kMaxMicroseconds);
    time.start *= 1e-6;
    time.end *= 1e-6;
    add(kind, name, time, in);
  }

  Events take(const Json& rest) {
    if (rest.is_object()) {
      JsonReader in(rest, events_.file);
      if (in.has("baseTimeNanoseconds"))
        events_.base_nanoseconds = in.integer<std::int64_t>("baseTimeNanoseconds", 0, kMaxWhole);
      if (in.has("distributedInfo")) {
        JsonReader info = in.object("distributedInfo");
        if (info.has("rank")) events_.rank = info.integer("rank", 0, kMaxCount);
        events_.world_size = info.integer_or("world_size", 0, 0, kMaxCount);
      }
    }
    return std::move(events_);
  }

 private:
  enum class Kind { host, annotation, launch, kernel, sluice_op, sluice_collective, other };

  static std::string text(const Json& event, std::string_view key) {
    const Json* value = event.find(key);
    return value && value->is_string() ? value->get<std::string>() : "";
  }

  static Kind kind_of(const std::string& category, const std::string& name) {
    static const std::map<std::string, Kind> kinds = {{"cpu_op", Kind::host},
                                                      {"user_annotation", Kind::annotation},
                                                      {"python_function", Kind::annotation},
                                                      {"", Kind::annotation},
                                                      {"cuda_runtime", Kind::launch},
                                                      {"cuda_driver", Kind::launch},
                                                      {"kernel", Kind::kernel},
                                                      {"gpu_memcpy", Kind::kernel},
                                                      {"gpu_memset", Kind::kernel},
                                                      {"forward", Kind::sluice_op},
                                                      {"backward", Kind::sluice_op},
                                                      {"input gradient", Kind::sluice_op},
                                                      {"weight gradient", Kind::sluice_op},
                                                      {"recomputation", Kind::sluice_op},
                                                      {"reduction", Kind::sluice_collective},
                                                      {"gather", Kind::sluice_collective}};
    const auto kind = kinds.find(category);
    if (kind == kinds.end()) return Kind::other;
    if (kind->second == Kind::sluice_op && ops_of_sluice(name).empty()) return Kind::other;
    return kind->second;
  }

  void add(Kind kind, const std::string& name, TimeSpan time, JsonReader& in) {
    switch (kind) {
      case Kind::sluice_op: {
        std::vector<NamedOp> ops = ops_of_sluice(name);
        if (const Json* args = in.json().find("args"); args && args->contains("overlapped with"))
          ops.front().overlapped = true;
        add_ranges(events_.lanes[in.integer("tid", 0, kMaxTracedStages)], ops, time);
        break;
      }
      case Kind::sluice_collective:
        events_.communication[in.integer("tid", 0, 2 * kMaxTracedStages)].push_back(time);
        break;
      case Kind::launch:
      case Kind::kernel: {
        if (!in.has("args")) break;
        JsonReader args = in.object("args");
        if (!args.has("correlation")) break;
        const auto id = args.integer<std::int64_t>("correlation", 0, kMaxWhole);
        if (kind == Kind::launch)
          events_.launches[id] = time.start;
        else if (!holds_any(name, {"nccl", "rccl", "msccl"}))
          events_.kernels.push_back({id, time});
        else if (!holds_any(name, {"SendRecv"}))
          events_.gpu_collectives.push_back(time);
        break;
      }
      default:
        add_host_event(kind, name, time);
    }
  }

  void add_host_event(Kind kind, const std::string& name, TimeSpan time) {
    auto [known, is_new] = names_.try_emplace(name);
    if (is_new) known->second = ops_named(name, sets_);
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      std::vector<NamedOp> ops;
      std::ranges::copy_if(known->second, std::back_inserter(ops), [&](const NamedOp& op) { return op.set == s; });
      add_ranges(events_.ranges, ops, time);
    }
    if (name.starts_with("c10d::") || name.starts_with("gloo:") || name.starts_with("nccl:")) {
      (holds_any(name, {"recv"})   ? events_.receives
       : holds_any(name, {"send"}) ? events_.sends
                                   : events_.collectives)
          .push_back(time);
    } else if (name.starts_with("ProfilerStep#")) {
      events_.steps.push_back(time);
    } else if (name.starts_with("Optimizer.step#")) {
      events_.optimizer_steps.push_back(time.start);
    } else if (kind == Kind::host && name != "record_param_comms") {
      events_.host_ops.push_back(time);
      if (name.starts_with("autograd::engine::evaluate_function")) events_.backward_ops.push_back(time);
    }
  }

  static void add_ranges(std::vector<Events::Range>& ranges, const std::vector<NamedOp>& ops, TimeSpan time) {
    const double each = (time.end - time.start) / static_cast<double>(std::max<std::size_t>(ops.size(), 1));
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const double start = time.start + static_cast<double>(k) * each;
      ranges.push_back({ops[k], start, k + 1 == ops.size() ? time.end : start + each});
    }
  }

  void add_lane(JsonReader in) {  // those of a profiler are threads, of any number
    if (!in.has("args") || !in.has("tid")) return;
    const Json *place = in.raw("args").find("sort_index"), &lane = in.raw("tid");
    const auto is_small = [](const Json& number) {
      return number.is_number_unsigned() && number.get<std::uint64_t>() < 2 * kMaxTracedStages;
    };
    if (place && is_small(*place) && is_small(lane)) events_.rank_of_lane[lane.get<int>()] = place->get<int>() / 2;
  }

  void add_message(JsonReader in, bool begins) {
    const double when = 1e-6 * in.number("ts", -kMaxMicroseconds, kMaxMicroseconds);
    const auto id = in.integer<std::int64_t>("id", 0, kMaxWhole);
    if (!begins) {
      const auto open = events_.open_messages.find(id);
      if (open == events_.open_messages.end()) return;
      events_.communication[open->second.first].push_back({open->second.second, when});
      events_.open_messages.erase(open);
      return;
    }
    if (!in.has("args")) return;
    JsonReader args = in.object("args");
    const std::string from = args.text("from", ""), to = args.text("to", "");
    if (const auto rank = number_after(to, "rank ")) events_.open_messages[id] = {*rank, when};
    const auto maker = number_after(from, "stage "), reader = number_after(to, "stage ");
    if (maker && reader && in.text("name", "").starts_with("send_activation")) events_.edges.insert({*maker, *reader});
  }

  // A range of Nsight Systems, on the GPU: from the start of the first kernel launched in it to the end of the last.
  void add_projected(JsonReader in) {
    std::string name = text(in.json(), "Name");
    if (name.starts_with(':')) name.erase(0, 1);  // of the default domain
    const std::vector<NamedOp> ops = ops_named(name, sets_);
    if (ops.empty()) return;
    constexpr double kNanosecond = 1e-9;
    const double start = kNanosecond * in.number(kProjectedStart, -kMaxNumber, kMaxNumber);
    const double seconds = kNanosecond * in.number("Projected Duration (ns)", 0, kMaxNumber);
    add_ranges(events_.ranges, ops, {start, start + seconds});
    if (in.has("PID")) events_.processes.insert(in.integer<std::int64_t>("PID", 0, kMaxWhole));
    if (events_.processes.size() > 1)
      in.fail("PID", "is another process than before", "give one file for each rank: those of one process");
    events_.projected = true;
  }

  std::string array_;
  const std::vector<PatternSet>& sets_;
  Events events_;
  std::unordered_map<std::string, std::vector<NamedOp>> names_;
};

Events read_events(const std::string& file, const std::vector<PatternSet>& sets) {
  const std::string advice =
      "give a trace of torch.profiler (export_chrome_trace), of sluice (--trace) or of Nsight Systems (nsys stats "
      "--report nvtx_gpu_proj_trace --format json)";
  const std::string text =
      file.ends_with(".gz") ? read_gzip(file, kMaxTraceBytes, advice) : read_text(file, kMaxTraceBytes, advice);
  const bool is_list = text.find_first_not_of(" \t\r\n") == text.find('[');
  EventReader reader(file, is_list ? "" : "/traceEvents", sets);
  const Json rest = Json::parse_elements(text, file, "traceEvents",
                                         [&](std::size_t index, const Json& event) { reader.add(index, event); });
  const Json* events = rest.find("traceEvents");
  if (!rest.is_array() && !(events && events->is_array()))
    throw InputError(file, "has no array traceEvents, so it is no trace in Chrome's format", advice);
  return reader.take(rest);
}

// The compute ops of a file on the host, or on the GPU, unordered, each with the start of its range.
struct RankOps {
  std::vector<std::pair<double, TracedOp>> ops;
  TimeSpans exposed;
  bool on_gpu = false;
};

TracedOp traced(const Events::Range& range, int stage) {
  return {range.op.opcode, range.op.stage.value_or(stage), range.op.micro, range.start, range.end, range.op.overlapped};
}

// Of a trace without ranges, as Schedule1F1B leaves: runs of ops that autograd differentiates later are forwards, runs
// of autograd's own ops are backwards. A send or a receive ends a run.
std::vector<Events::Range> ranges_of_autograd(const Events& events, std::size_t set) {
  const TimeSpans backwards = merged(events.backward_ops);
  std::vector<double> differentiable = events.differentiable;
  std::ranges::sort(differentiable);
  struct Part {
    TimeSpan time;
    std::optional<Opcode> opcode;  // none: a message
  };
  std::vector<Part> parts;
  for (const TimeSpan& span : without(merged(events.host_ops), backwards)) {
    const auto next = std::ranges::lower_bound(differentiable, span.start);
    if (next != differentiable.end() && *next <= span.end) parts.push_back({span, Opcode::forward});
  }
  for (const TimeSpan& span : backwards) parts.push_back({span, Opcode::backward});
  for (const auto* messages : {&events.receives, &events.sends})
    for (const TimeSpan& span : *messages) parts.push_back({span, std::nullopt});
  std::ranges::stable_sort(parts, {}, [](const Part& part) { return part.time.start; });
  std::vector<Events::Range> ranges;
  std::optional<Opcode> open;
  for (const Part& part : parts) {
    if (part.opcode && part.opcode == open)
      ranges.back().end = std::max(ranges.back().end, part.time.end);
    else if (part.opcode)
      ranges.push_back(
          {{.set = set, .opcode = *part.opcode, .stage = {}, .micro = ""}, part.time.start, part.time.end});
    open = part.opcode;
  }
  return ranges;
}

// The last range that begins at or before `when`, if it has not ended; ranges are sorted and do not overlap.
const Events::Range* range_at(const std::vector<Events::Range>& ranges, double when) {
  const auto after = std::ranges::upper_bound(ranges, when, {}, &Events::Range::start);
  if (after == ranges.begin() || (after - 1)->end < when) return nullptr;
  return &*(after - 1);
}

RankOps ops_of(Events& events, std::size_t set, int stage) {
  std::vector<Events::Range>& ranges = events.ranges;
  std::erase_if(ranges, [&](const Events::Range& r) { return r.op.set != set; });
  std::ranges::stable_sort(ranges, {}, &Events::Range::start);
  // A pattern may also match what the op calls.
  std::vector<Events::Range> outermost;
  for (const Events::Range& r : ranges)
    if (outermost.empty() || r.start >= outermost.back().end) outermost.push_back(r);
  ranges = std::move(outermost);

  RankOps result;
  std::map<const Events::Range*, TimeSpan> on_gpu;
  std::vector<TimeSpan> computes;
  for (const Events::Kernel& kernel : events.kernels) {
    computes.push_back(kernel.time);
    const auto launch = events.launches.find(kernel.correlation);
    const Events::Range* range = launch == events.launches.end() ? nullptr : range_at(ranges, launch->second);
    if (!range) continue;
    const auto [known, is_new] = on_gpu.try_emplace(range, kernel.time);
    known->second.start = std::min(known->second.start, kernel.time.start);
    known->second.end = std::max(known->second.end, kernel.time.end);
  }
  result.on_gpu = !on_gpu.empty() || events.projected;
  if (!on_gpu.empty()) {
    for (const auto& [range, time] : on_gpu) {
      TracedOp op = traced(*range, stage);
      std::tie(op.start, op.end) = std::tie(time.start, time.end);
      result.ops.emplace_back(range->start, op);
    }
    result.exposed = without(merged(events.gpu_collectives), merged(computes));
    return result;
  }
  std::ranges::sort(events.receives, {}, &TimeSpan::end);
  std::ranges::sort(events.sends, {}, &TimeSpan::start);
  const TimeSpans computes_on_host = merged(events.host_ops);
  for (const Events::Range& range : ranges) {
    TracedOp op = traced(range, stage);
    auto receive = std::ranges::upper_bound(events.receives, range.start, {}, &TimeSpan::end);
    for (; receive != events.receives.end() && receive->end < range.end; ++receive) {
      const double from = std::max(range.start, receive->start);
      const auto next = std::ranges::lower_bound(computes_on_host, from, {}, &TimeSpan::start);
      if (next == computes_on_host.end() || next->start >= receive->end) op.start = receive->end;
    }
    const auto send = std::ranges::lower_bound(events.sends, op.start, {}, &TimeSpan::start);
    if (send != events.sends.end()) op.end = std::min(op.end, send->start);
    result.ops.emplace_back(range.start, op);
  }
  result.exposed = without(merged(events.collectives), merged(events.host_ops));
  return result;
}

// Sorts the ops of a rank and gives both of a pair the times at which it reads and has made.
void sort_and_pair(std::vector<TracedOp>& ops) {
  std::ranges::stable_sort(ops, {}, &TracedOp::start);
  for (TracedOp& op : ops) std::tie(op.reads, op.made) = std::tie(op.start, op.end);
  for (std::size_t k = 0; k + 1 < ops.size(); ++k) {
    TracedOp &first = ops[k], &second = ops[k + 1];
    if (!first.overlapped) continue;
    second.overlapped = true;
    second.reads = first.start;
    first.made = second.end;
    ++k;
  }
}

// The ops by update: by the profiler's steps, otherwise by the optimizer's, otherwise one ends where an op that names
// its micro-batch comes again.
std::vector<std::vector<TracedOp>> by_update(RankOps ops, const Events& events) {
  std::ranges::stable_sort(ops.ops, {}, &std::pair<double, TracedOp>::first);
  std::vector<double> boundaries;
  for (const TimeSpan& step : events.steps) boundaries.push_back(step.start);
  if (boundaries.empty()) boundaries = events.optimizer_steps;
  std::ranges::sort(boundaries);
  std::map<std::ptrdiff_t, std::vector<TracedOp>> updates;
  std::set<std::tuple<Opcode, int, std::string>> seen;
  std::ptrdiff_t repeated = 0;
  for (const auto& [range_start, op] : ops.ops) {
    std::ptrdiff_t update = std::ranges::upper_bound(boundaries, range_start) - boundaries.begin();
    if (boundaries.empty() && !op.micro.empty() && !seen.emplace(op.opcode, op.stage, op.micro).second) {
      ++repeated;
      seen = {{op.opcode, op.stage, op.micro}};
    }
    updates[update + repeated].push_back(op);
  }
  std::vector<std::vector<TracedOp>> result;
  for (auto& [index, update] : updates) {
    std::map<std::pair<Opcode, int>, int> count;
    for (TracedOp& op : update)
      if (op.micro.empty()) op.micro = std::to_string(count[{op.opcode, op.stage}]++);
    sort_and_pair(update);
    result.push_back(std::move(update));
  }
  return result;
}

TracedRun run_of_sluice(Events& events) {
  TracedRun run;
  run.edges.assign(events.edges.begin(), events.edges.end());
  for (const auto& [lane, rank] : events.rank_of_lane) {
    events.lanes[rank];  // also of a rank without ops
    std::vector<TimeSpan>& of_rank = events.communication[rank];
    if (lane == rank) continue;
    const std::vector<TimeSpan>& of_lane = events.communication[lane];
    of_rank.insert(of_rank.end(), of_lane.begin(), of_lane.end());
  }
  for (const auto& [lane, ranges] : events.lanes) {
    TracedRank rank{.rank = lane, .file = events.file, .updates = std::vector<std::vector<TracedOp>>(1), .exposed = {}};
    std::vector<TimeSpan> computes;
    for (const Events::Range& range : ranges) {
      rank.updates.front().push_back(traced(range, 0));
      computes.push_back({range.start, range.end});
    }
    sort_and_pair(rank.updates.front());
    rank.exposed = without(merged(events.communication[lane]), merged(std::move(computes)));
    run.ranks.push_back(std::move(rank));
  }
  return run;
}

void require_common_times(const TracedRun& run) {
  const auto span = [](const TracedRank& rank) {
    TimeSpan all{std::numeric_limits<double>::infinity(), 0};
    for (const auto& update : rank.updates)
      for (const TracedOp& op : update) all = {std::min(all.start, op.start), std::max(all.end, op.end)};
    return all;
  };
  const TimeSpan first = span(run.ranks.front());
  for (const TracedRank& rank : run.ranks) {
    const TimeSpan other = span(rank);
    if (other.start <= first.end && first.start <= other.end) continue;
    throw InputError(rank.file, "has no time in common with " + run.ranks.front().file,
                     "give the ranks' files of the same steps, of machines with synchronised clocks");
  }
}

}  // namespace

TracedRun read_traces(const std::vector<std::string>& files, const RangePatterns& patterns) {
  const std::vector<PatternSet> sets = pattern_sets(patterns);
  const bool default_patterns = patterns.forward.empty();
  std::vector<Events> all;
  for (const std::string& file : files) {
    all.push_back(read_events(file, sets));
    if (!all.back().lanes.empty() && default_patterns) {
      if (files.size() > 1) throw InputError(file, "is a trace of sluice, which holds all ranks", "give it alone");
      return run_of_sluice(all.back());
    }
  }
  std::size_t set = sets.size();
  for (const Events& events : all)
    for (const Events::Range& range : events.ranges)
      if (range.op.opcode == Opcode::forward) set = std::min(set, range.op.set);
  std::stable_sort(all.begin(), all.end(), [](const Events& a, const Events& b) {
    return a.rank.value_or(-1) < b.rank.value_or(-1);  // without a rank: in the order given
  });
  TracedRun run;
  if (set == sets.size() && default_patterns) {
    for (Events& events : all) events.ranges = ranges_of_autograd(events, set);
    run.notes.emplace_back(
        "the trace has no ranges of forwards: forwards and backwards were told apart by autograd's ops, and end at "
        "sends and receives");
  }
  if (all.front().world_size > static_cast<int>(all.size()))
    run.notes.push_back(fmt::format("these are {} of the run's {} ranks, taken to be all stages of one pipeline",
                                    all.size(), all.front().world_size));
  const std::int64_t base = all.front().base_nanoseconds;
  std::size_t updates = std::numeric_limits<std::size_t>::max();
  for (std::size_t k = 0; k < all.size(); ++k) {
    Events& events = all[k];
    const auto has_rank = [&](const TracedRank& other) { return events.rank && other.rank == *events.rank; };
    if (const auto twice = std::ranges::find_if(run.ranks, has_rank); twice != run.ranks.end())
      throw InputError(events.file, fmt::format("is of rank {}, as is {}", *events.rank, twice->file),
                       "give one file for each rank");
    RankOps ops = ops_of(events, set, static_cast<int>(k));
    if (std::ranges::none_of(ops.ops, [](const auto& op) { return op.second.opcode == Opcode::forward; }))
      throw InputError(events.file, "has no range of a forward",
                       "give --forward and --backward, expressions that its ranges' names match");
    const double offset = 1e-9 * static_cast<double>(events.base_nanoseconds - base);
    for (auto& [start, op] : ops.ops) {
      op.start += offset;
      op.end += offset;
    }
    for (TimeSpan& i : ops.exposed) i = {i.start + offset, i.end + offset};
    run.on_gpu = run.on_gpu || ops.on_gpu;
    TracedRank rank{.rank = events.rank.value_or(static_cast<int>(k)), .file = events.file};
    rank.exposed = ops.exposed;
    rank.updates = by_update(std::move(ops), events);
    updates = std::min(updates, rank.updates.size());
    run.ranks.push_back(std::move(rank));
    events = Events();
  }
  for (TracedRank& rank : run.ranks) {
    if (rank.updates.size() > updates)
      run.notes.push_back(fmt::format("{}: of {} updates the first {} count, as many as another rank's file has",
                                      rank.file, rank.updates.size(), updates));
    rank.updates.resize(updates);
  }
  require_common_times(run);
  return run;
}

}  // namespace sluice
