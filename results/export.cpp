#include "results/export.h"

#include <algorithm>
#include <set>

#include "harness/base/json.h"
#include "results/fields.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {
namespace {

// A table that grows a row at a time; the columns are those of the first row.
class Rows {
 public:
  void begin() {
    first_ = table_.rows.empty();
    table_.rows.emplace_back();
  }
  template <class Value>
  void put(const std::string& column, const Value& value) {
    if (first_) table_.columns.push_back(column);
    table_.rows.back().push_back(flat(value));
  }
  FlatTable take() { return std::move(table_); }

 private:
  FlatTable table_;
  bool first_ = true;
};

// The names of the options of any record.
std::set<std::string> option_names(std::span<const Record> records) {
  std::set<std::string> names;
  for (const Record& record : records) {
    for (const auto& [name, value] : record.options) names.insert(name);
    if (record.optimizer) names.insert("optimizer");
  }
  return names;
}

void put_field(Rows& rows, const Field& field, const Record& r, const std::set<std::string>& options) {
  if (!field.column.empty()) rows.put(field.column, field.get(r));
  if (field.name == "system") {
    const SystemStyle style = system_style(r.system);
    rows.put("system_title", style.title);
    rows.put("system_color", style.color);
    rows.put("system_marker", style.marker);
  }
  if (field.name != "options") return;
  for (const std::string& name : options) {
    std::optional<std::string> text;
    if (const auto option = r.options.find(name); option != r.options.end()) text = option->second;
    if (name == "optimizer" && r.optimizer) text = to_json(*r.optimizer).dump();
    rows.put("option." + name, text);
  }
}

void put_identity(Rows& rows, const Record& r, const std::set<std::string>& options) {
  for (const Field& field : record_fields())
    if (field.kind == FieldKind::setting) put_field(rows, field, r, options);
}

template <class Of>
FlatTable rows_of(std::span<const Record> records, Of put_rows) {
  const std::set<std::string> options = option_names(records);
  Rows rows;
  for (const Record& record : records) put_rows(rows, record, options);
  return rows.take();
}

std::optional<std::int64_t> sent(const Record& record, SentKind kind, std::size_t rank) {
  if (!record.observed.sent_bytes) return std::nullopt;
  const std::vector<std::int64_t>& ranks = bytes_of(*record.observed.sent_bytes, kind);
  return rank < ranks.size() ? std::optional(ranks[rank]) : std::nullopt;
}

}  // namespace

FlatTable records_table(std::span<const Record> records) {
  return rows_of(records, [](Rows& rows, const Record& r, const std::set<std::string>& options) {
    rows.begin();
    for (const Field& field : record_fields()) put_field(rows, field, r, options);
  });
}

FlatTable ranks_table(std::span<const Record> records) {
  return rows_of(records, [](Rows& rows, const Record& r, const std::set<std::string>& options) {
    const bool measured = r.clock == Clock::wall;
    const std::size_t ranks = std::max(r.peak_bytes.size(), r.predicted_peak_bytes.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      rows.begin();
      put_identity(rows, r, options);
      rows.put("outcome", choice_name(r.outcome));
      rows.put("rank", rank);
      const auto put_split = [&](const std::string& prefix, const std::vector<MemorySplit>& splits) {
        const MemorySplit* split = rank < splits.size() ? &splits[rank] : nullptr;
        const auto put = [&](const char* name, std::int64_t MemorySplit::*kind) {
          rows.put(prefix + name + "_bytes", split ? std::optional(split->*kind) : std::nullopt);
        };
        put("total", &MemorySplit::total);
        put("weights", &MemorySplit::weights);
        put("versions", &MemorySplit::versions);
        put("gradients", &MemorySplit::gradients);
        put("optimizer", &MemorySplit::optimizer);
        put("activations", &MemorySplit::activations);
        put("buffers", &MemorySplit::buffers);
        put("host", &MemorySplit::host);
      };
      // On the virtual clock the prediction is all there is.
      put_split("measured_", measured ? r.peak_bytes : std::vector<MemorySplit>{});
      put_split("predicted_", measured ? r.predicted_peak_bytes : r.peak_bytes);
      for (const SentKind kind : kSentKinds)
        rows.put(std::string("sent_") + to_text(kind) + "_bytes", sent(r, kind, rank));
    }
  });
}

FlatTable curves_table(std::span<const Record> records) {
  return rows_of(records, [](Rows& rows, const Record& r, const std::set<std::string>& options) {
    for (const CurvePoint& point : r.curve) {
      rows.begin();
      put_identity(rows, r, options);
      rows.put("step", point.step);
      rows.put("seconds", point.seconds);
      rows.put("loss", point.loss);
      rows.put("metric_name", metric_name(r));
      rows.put("metric", point.metric);
    }
  });
}

}  // namespace sluice
