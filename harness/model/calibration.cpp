#include "harness/model/calibration.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"

namespace sluice {

namespace {

constexpr double kMostPrologue = 1e6, kMostIntensity = 1e6, kMostGain = 16;

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

std::vector<std::string> unidentified_of(JsonReader& reader) {
  static const std::vector<std::string> known = {
      "peak_share", "half_intensity", "prologue", "quantisation", "bandwidth_share", "gap", "gain_3x3"};
  std::vector<std::string> names = reader.texts("unidentified");
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      reader.fail("unidentified", "'" + name + "' is no parameter of a fit", suggestion(name, known));
  return names;
}

KernelFit fit_of(JsonReader reader, bool convolution) {
  KernelFit fit;
  fit.peak_share = reader.above_zero("peak_share", 4);
  fit.half_intensity = reader.number("half_intensity", 0, kMostIntensity);
  fit.prologue = reader.number("prologue", 0, kMostPrologue);
  fit.quantisation = reader.number("quantisation", 0, 1);
  fit.bandwidth_share = reader.above_zero("bandwidth_share", 4);
  fit.gap = gap_of(reader, "gap");
  if (convolution) fit.gain_3x3 = reader.number("gain_3x3", 1, kMostGain);
  if (!convolution && reader.has("short_reductions")) {
    JsonReader reductions = reader.object("short_reductions");
    fit.short_below = reductions.integer("below", 1, kMostCount);
    fit.short_prologue = reductions.number("prologue", 0, fit.prologue);
    reductions.no_other_keys();
  }
  fit.points = reader.integer("points", 1, kMostCount);
  fit.held_out = fit_error(reader.object("held_out"));
  if (reader.has("out_of_range")) fit.out_of_range = fit_error(reader.object("out_of_range"));
  fit.unidentified = unidentified_of(reader);
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
  if (c.precision != "fp32" && c.precision != "fp16") reader.fail("precision", "must be fp32 or fp16");
  c.element = Bytes(c.precision == "fp32" ? 4 : 2);
  c.source = reader.text("source");
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
  JsonReader streams = reader.object("streams");
  c.stream_share = streams.above_zero("bandwidth_share", 4);
  c.stream_gap = gap_of(streams, "gap");
  streams.no_other_keys();
  if (reader.has("host_gap")) c.host_gap = gap_of(reader, "host_gap");
  c.cautions = reader.texts("cautions");
  reader.no_other_keys();
  return c;
}

std::vector<std::string> listed_calibrations(const std::string& folder) { return names_of_json_files(folder); }

Calibration load_calibration(const std::string& name, const std::string& folder) {
  const std::vector<std::string> names = listed_calibrations(folder);
  if (std::ranges::find(names, name) == names.end())
    throw InputError("calibration", "there is no '" + name + "'", suggestion(name, names));
  const std::string file = folder + "/" + name + ".json";
  Calibration c = calibration_from_json(parse_json_file(file), file);
  c.name = name;
  return c;
}

}  // namespace sluice
