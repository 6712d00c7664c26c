// The settings of a run, each declared once. From their table follow what a sweep may hold, a case's canonical JSON and
// so its digest, which settings stand among a record's options, and the flags of `sluice run` with their help. A new
// setting is a row here and a member of RunCase.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/entry.h"
#include "harness/case/setting_value.h"

namespace sluice {

// Whether a setting is part of the experiment that a digest names. Settings that came after the first records leave out
// of the digest what all cases before them had, so that those records keep their digests: unless_default the default,
// unless_as_before the value Setting::before.
enum class InDigest { always, unless_default, unless_as_before, never };

// The headings of `sluice run --help`.
enum class HelpGroup { experiment, machine, parallelism, batches, training };

struct Setting {
  std::string key;        // in JSON
  std::string flag = {};  // of `sluice run`, where it is not --KEY with dashes
  bool has_flag = true;   // otherwise it is given in sweeps only
  bool of_plan = false;   // it changes a plan or what is computed of one: a flag of plan, advise and export too
  HelpGroup group = HelpGroup::training;
  std::string help = {};          // one sentence without its full stop; choices and default are put to it
  std::string default_text = {};  // what help says of a default that follows from other settings
  SettingValue value = {};
  InDigest in_digest = InDigest::always;
  const char* before = "";  // unless_as_before: the value that digests leave out
  // Where a record names it among its options, as one of the things that tell its row of a table from others.
  bool (*in_record_options)(const RunCase&) = nullptr;
  // Sets the default where it follows from the system, the workload or the settings above.
  void (*fill)(CaseReading&) = nullptr;
  // Whether it agrees with the settings above. Throws InputError.
  void (*check)(CaseReading&) = nullptr;
  // Once all are read: canonicalizes it, to one value where every value makes the same experiment, so that its digest
  // is one.
  void (*canonicalize)(RunCase&, const System&) = nullptr;
  const char* when_unused = "";  // why `canonicalize` or `check` undid what was asked for, and what to do
};

std::span<const Setting> settings();  // in the order in which they are read

// --clock of "clock".
std::string flag_of(const Setting& setting);
// The place of an entry's values that were given as flags: "--ranks" of "/ranks", "--set" of "/options/chunks".
std::string place_of_flag(const std::string& pointer);
// What `sluice run --help` says: "wall (default) or virtual: ...".
std::string help_of(const Setting& setting);

// The only way from what was written to a case. Throws InputError at the value's place: unknown keys and names (with a
// suggestion), wrong types, counts below 1, a batch that the micro-batches do not divide.
RunCase resolve(const Entry& entry);

// The same, and those of the entry's values that decide nothing, by their JSON pointers, with the reason, which may be
// empty: {"/step", ...} of an asynchronous system, {"/options/memory", "only with variant=auto"}.
struct ReadCase {
  RunCase c;
  std::map<std::string, std::string> without_effect;
};
ReadCase read_case(const Entry& entry);

// All that makes the case: resolve() of it gives an equal case. Settings that have their default may be left out, but
// for those that all digests know. A tuned case is described by its search, not by the rate that the search finds.
Json to_json(const RunCase& c);

// The name of the experiment in records: the digest of to_json() without what InDigest says to leave out.
std::string digest_of(const RunCase& c);

// A record's options that are settings of the case, not of the system, as texts.
std::map<std::string, std::string> record_options(const RunCase& c);

}  // namespace sluice
