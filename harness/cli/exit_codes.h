// The exit codes of every command; harness/case/README.md says what a script may do after each.
#pragma once

#include <functional>
#include <string>

namespace sluice {

class AgreedError;
class ProcessGroup;

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;    // a run or a check failed, something could not be stored, or a signal ended it
inline constexpr int kBadInput = 2;  // bad usage, or a file, name or value that the user can correct
inline constexpr int kDefect = 3;    // an internal error: a defect of sluice

// "error: TEXT" on stderr. Always one line without control characters, for any text. A text that quotes a whole file is
// shortened in the middle: its beginning and its end have the place and the fault.
void print_error(std::string text);

// Prints the error in the first process, once for all, before any of them exits: a launcher ends the whole job when one
// process exits with an error code. Collective.
void print_while_joined(AgreedError& error, ProcessGroup& processes);

// The exit code of a command. An exception becomes one line on stderr, and so does a stdout that cannot be written.
int guarded(const std::function<int()>& command);

// The last part of every --help.
inline constexpr const char* kExitCodesHelp =
    "Exit codes: 0 done; 1 a run or a check failed, a file could not be written, or a signal ended a run;\n"
    "2 bad usage or bad input; 3 an internal error; 128 + n: ended by signal n.";

}  // namespace sluice
