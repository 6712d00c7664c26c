// The settings of a run, each declared once. Their table determines what a sweep may hold, a case's canonical JSON and
// therefore its digest, the settings among a record's options, and the flags of `sluice run` with their help. A new
// setting is a row in the table and a member of RunCase.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/entry.h"
#include "harness/case/setting_value.h"

namespace sluice {

// Whether a setting is part of the experiment that a digest names. Settings that are newer than the first records are
// left out of the digest if they have the value of all older cases, so that those records keep their digests:
// unless_default: the default; unless_as_before: Setting::before.
enum class InDigest { always, unless_default, unless_as_before, never };

// The headings of `sluice run --help`.
enum class HelpGroup { experiment, machine, parallelism, batches, training };

struct Setting {
  std::string key;        // in JSON
  std::string flag = {};  // of `sluice run`, if it is not --KEY with dashes
  bool has_flag = true;   // false: only in sweeps
  bool of_plan = false;   // it affects a plan or its figures: also a flag of plan, advise and export
  HelpGroup group = HelpGroup::training;
  std::string help = {};          // one sentence without its full stop; choices and default are appended
  std::string default_text = {};  // the help's text for a default that depends on other settings
  SettingValue value = {};
  InDigest in_digest = InDigest::always;
  const char* before = "";  // unless_as_before: the value that digests leave out
  // Whether a record names it among its options, which separate the rows of a table.
  bool (*in_record_options)(const RunCase&) = nullptr;
  // Sets the default if it depends on the system, the workload or the settings above.
  void (*fill)(CaseReading&) = nullptr;
  // Checks it against the settings above. Throws InputError.
  void (*check)(CaseReading&) = nullptr;
  // Called after all are read. Values that make the same experiment become one value, so that the digest is one: the
  // default where the value is `unused`, or what `canonicalize` makes of it.
  bool (*unused)(const RunCase&, const System&) = nullptr;
  void (*canonicalize)(RunCase&, const System&) = nullptr;
  const char* when_unused = "";  // why a given value was changed, also by `check`, and what to do
};

std::span<const Setting> settings();  // in the order in which they are read

// --clock of "clock".
std::string flag_of(const Setting& setting);
// The flag of a place in an entry given as flags: "--ranks" of "/ranks", "--set" of "/options/chunks".
std::string place_of_flag(const std::string& pointer);
// The help of `sluice run`: "wall (default) or virtual: ...".
std::string help_of(const Setting& setting);

// Makes a case of an entry; there is no other way. Throws InputError at the value's place: unknown keys and names (with
// a suggestion), wrong types, counts below 1, a batch that the micro-batches do not divide.
RunCase resolve(const Entry& entry);

// The same, with those of the entry's values that have no effect, by JSON pointer, and the reason, which may be empty:
// {"/step", ...} for an asynchronous system, {"/options/memory", "only with variant=auto"}.
struct ReadCase {
  RunCase c;
  std::map<std::string, std::string> without_effect;
};
ReadCase read_case(const Entry& entry);

// The whole case: resolve() of it gives an equal case. Settings with their default may be left out, except those that
// are part of all digests. A tuned case is described by its search, not by the rate that the search finds.
Json to_json(const RunCase& c);

// The identity of the experiment in records: the digest of to_json() without what InDigest leaves out.
std::string digest_of(const RunCase& c);

// The settings of the case among a record's options (the others are the system's), as text.
std::map<std::string, std::string> record_options(const RunCase& c);

}  // namespace sluice
