// The exit codes of every command; harness/case/README.md says what a script may conclude from them.
#pragma once

#include <functional>
#include <string>

namespace sluice {

class AgreedError;
class ProcessGroup;

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;    // a run or a check failed, something could not be stored, or a signal ended it
inline constexpr int kBadInput = 2;  // bad usage, or a file, name or value that the user can mend
inline constexpr int kDefect = 3;    // an error that sluice does not know: a defect

// "error: TEXT" on stderr. Always one line, whatever the text holds, and nothing in it that a terminal obeys. A text
// that quotes a whole file keeps its beginning and its end, which say where and what.
void print_error(std::string text);

// Prints the error in the first process, once for all, before any of them may exit: a launcher ends the whole job when
// one process exits with an error code. Collective.
void print_while_joined(AgreedError& error, ProcessGroup& processes);

// The exit code of a command; what it throws becomes one line on stderr, and so does a stdout that cannot be written.
int guarded(const std::function<int()>& command);

// What every --help ends with.
inline constexpr const char* kExitCodesHelp =
    "Exit codes: 0 done; 1 a run or a check failed, a file could not be written, or a signal ended it;\n"
    "2 bad usage or bad input; 3 a defect of sluice; 128 + n: signal n, sent twice or not to be caught.";

}  // namespace sluice
