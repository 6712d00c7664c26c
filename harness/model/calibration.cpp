#include "harness/model/calibration.h"

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"

namespace sluice {

namespace {

const std::string kByOthers = "measured by others: ";
const std::string kEvidence[] = {"measured by us: ", kByOthers, "derived: "};
constexpr double kMaxPrologue = 1e6, kMaxIntensity = 1e6, kMaxGain = 16;

FitError fit_error(JsonReader reader) {
  const FitError error{reader.number("median", 0, 1e3), reader.number("ninetieth", 0, 1e3)};
  if (error.ninetieth < error.median) reader.fail("ninetieth", "is less than the median");
  reader.no_other_keys();
  return error;
}

Seconds gap_of(JsonReader& reader, const std::string& key) {
  const Seconds gap = parse_seconds(reader.text(key), reader.where(key));
  if (!(gap.value >= 0 && gap.value <= 1)) reader.fail(key, "must be from 0 to 1 second");
  return gap;
}

ShapeCorrections corrections_of(JsonReader reader) {
  constexpr double kMaxLength = 100, kMaxSide = 1e9, kMaxWeight = 10;
  ShapeCorrections corrections;
  const std::vector<double> lengths = reader.numbers("lengths", 0.01, kMaxLength);
  if (lengths.size() != 3) reader.fail("lengths", "must be three numbers: of batch, sides and reduction");
  corrections.batch_length = lengths[0];
  corrections.side_length = lengths[1];
  corrections.reduction_length = lengths[2];
  JsonReader rows = reader.list("weights");
  for (const std::string& key : rows.keys()) {
    const std::vector<double> row = rows.numbers(key, -kMaxSide, kMaxSide);
    if (row.size() != 5 || *std::min_element(row.begin(), row.end() - 1) < 1 || std::abs(row[4]) > kMaxWeight)
      rows.fail(key, "must be batch, m, n, k (1 or more) and a weight (-10 to 10)");
    corrections.shapes.push_back({std::log2(row[0]), std::log2(row[1]), std::log2(row[2]), std::log2(row[3]), row[4]});
  }
  reader.no_other_keys();
  return corrections;
}

KernelFit fit_of(JsonReader reader, bool convolution) {
  KernelFit fit;
  fit.peak_share = reader.above_zero("peak_share", 4);
  fit.half_intensity = reader.number("half_intensity", 0, kMaxIntensity);
  fit.prologue = reader.number("prologue", 0, kMaxPrologue);
  fit.quantisation = reader.number("quantisation", 0, 1);
  fit.bandwidth_share = reader.above_zero("bandwidth_share", 4);
  fit.gap = gap_of(reader, "gap");
  if (convolution) fit.gain_3x3 = reader.number("gain_3x3", 1, kMaxGain);
  if (!convolution && reader.has("short_reductions")) {
    JsonReader reductions = reader.object("short_reductions");
    fit.short_below = reductions.integer("below", 1, kMaxCount);
    fit.short_prologue = reductions.number("prologue", 0, fit.prologue);
    reductions.no_other_keys();
  }
  if (!convolution && reader.has("corrections")) fit.corrections = corrections_of(reader.object("corrections"));
  fit.points = reader.integer("points", 1, kMaxCount);
  fit.held_out = fit_error(reader.object("held_out"));
  if (reader.has("out_of_range")) fit.out_of_range = fit_error(reader.object("out_of_range"));
  reader.texts("unidentified");
  reader.no_other_keys();
  return fit;
}

}  // namespace

Calibration calibration_from_json(const Json& json, const std::string& where) {
  JsonReader reader(json, where);
  if (reader.text("schema") != "sluice/calibration/1") reader.fail("schema", "must be sluice/calibration/1");
  Calibration c;
  c.device = reader.text("device");
  c.precision = reader.text("precision");
  if (c.precision != "fp32" && c.precision != "fp16" && c.precision != "bf16")
    reader.fail("precision", "must be fp32, fp16 or bf16");
  c.element = Bytes(c.precision == "fp32" ? 4 : 2);
  c.source = reader.text("source");
  c.evidence = reader.text("evidence", kByOthers + c.source.substr(0, c.source.find(',')));
  if (std::ranges::none_of(kEvidence, [&](const std::string& kind) { return c.evidence.starts_with(kind); }))
    reader.fail("evidence", "must begin with 'measured by us: ', 'measured by others: ' or 'derived: '");
  constexpr double least = 1e6, most = 1e24;  // of a rate
  c.peak = reader.number("peak", least, most);
  c.memory_bandwidth = parse_rate(reader.text("memory_bandwidth"), reader.where("memory_bandwidth"));
  if (c.memory_bandwidth < least) reader.fail("memory_bandwidth", "must be at least 1MB/s");
  c.multiprocessors = reader.integer("multiprocessors", 1, 1'000'000);
  c.products = fit_of(reader.object("products"), false);
  if (reader.has("convolutions")) {
    JsonReader passes = reader.object("convolutions");
    c.convolutions = {fit_of(passes.object("forward"), true), fit_of(passes.object("input_gradient"), true),
                      fit_of(passes.object("weight_gradient"), true)};
    passes.no_other_keys();
  }
  if (reader.has("attention")) {
    JsonReader attention = reader.object("attention");
    const auto pass = [&](const std::string& name) {
      return AttentionFit{attention.above_zero(name + "_share", 1),
                          attention.number_or(name + "_extra_width", 0, 0, kMaxNumber),
                          attention.number_or(name + "_tail", 0, 0, 1)};
    };
    c.attention = {pass("forward"), pass("backward")};
    attention.no_other_keys();
  }
  JsonReader streams = reader.object("streams");
  c.stream_share = streams.above_zero("bandwidth_share", 4);
  c.stream_gap = gap_of(streams, "gap");
  c.norm_share = streams.above_zero_or("norm_share", c.stream_share, 4);
  c.activation_share = streams.above_zero_or("activation_share", c.stream_share, 4);
  streams.no_other_keys();
  if (reader.has("host_gap")) c.host_gap = gap_of(reader, "host_gap");
  c.cautions = reader.texts("cautions");
  reader.no_other_keys();
  return c;
}

Calibration load_calibration(const std::string& name, const std::string& folder) {
  const std::vector<std::string> names = names_of_json_files(folder);
  if (std::ranges::find(names, name) == names.end())
    throw InputError("calibration", "there is no '" + name + "'", suggestion(name, names));
  const std::string file = folder + "/" + name + ".json";
  Calibration c = calibration_from_json(parse_json_file(file), file);
  c.name = name;
  return c;
}

}  // namespace sluice
