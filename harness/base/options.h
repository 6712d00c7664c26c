// Options of a system: declared with defaults, given as text ("key=value"), and resolved once, where all errors are
// found. A resolved Options has a valid value for every declared option and nothing else.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice {

// A condition on another option of the same system: it has one of `values`, or, with `except`, none of them.
struct OptionCondition {
  std::string option;
  std::vector<std::string> values;
  bool except = false;
};
std::string to_text(const OptionCondition& condition);  // "variant=auto", "planner=paper|code", "moves!=none"

struct OptionSpec {
  std::string name;
  std::string default_value;
  std::string help;
  std::vector<std::string> choices = {};  // empty: an integer, at least `minimum`
  long minimum = 1;
  // For an option whose value names a file (the default: none): reads the file and throws InputError if it is invalid.
  // The file's content is part of a case's digest (case/file_digests.h).
  void (*check_file)(const std::string& file) = nullptr;
  // For an option whose value is a text with its own syntax (the default: none): throws InputError at `where` for
  // another syntax.
  void (*check_text)(const std::string& value, const std::string& where) = nullptr;
  // Part of a case's digest only if it is not the default: for options that are newer than the first records.
  bool in_digest_unless_default = false;
  // If one does not hold, no value has an effect, and resolve_options() gives the default.
  std::vector<OptionCondition> only_with = {};
  bool training_only = false;  // no value has an effect on inference
  bool replicas_only = false;  // or if no stage has replicas, or the case says itself what they divide
};

OptionSpec only_with(OptionSpec spec, std::string option, std::vector<std::string> values);
OptionSpec only_without(OptionSpec spec, std::string option, std::vector<std::string> values);
OptionSpec training_only(OptionSpec spec);
OptionSpec replicas_only(OptionSpec spec);

class Options {
 public:
  const std::string& text(const std::string& name) const;  // throws std::logic_error if undeclared
  int integer(const std::string& name) const;
  bool holds(const OptionCondition& condition) const;
  bool flag(const std::string& name) const { return text(name) == "yes"; }
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  friend Options resolve_options(std::span<const OptionSpec>, const std::map<std::string, std::string>&,
                                 const std::string&);
  std::map<std::string, std::string> values_;
};

inline const std::vector<std::string> kYesNo = {"yes", "no"};

// An option whose `only_with` does not hold gets its default, so that equal decisions are equal Options. Throws
// InputError at `where` for an unknown option (with a suggestion) or an invalid value.
Options resolve_options(std::span<const OptionSpec> specs, const std::map<std::string, std::string>& given,
                        const std::string& where);

}  // namespace sluice
