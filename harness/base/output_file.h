// Where a command may write: to a new file, or over a file of the same kind that an earlier command wrote. Anything
// else at the path (another text, a binary, a folder, a device, a pipe) stays unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

// The file at `path`, with links resolved: a regular file, or a new name in a folder. Throws InputError at the path for
// a folder, a device, a pipe, a socket, a link to no file, a file that is printed to, and one that may not be written.
std::filesystem::path output_place(const std::filesystem::path& path);

// Throws InputError where two of the paths are one file; empty ones are left out. Call before the work begins.
void reject_same_output(const std::vector<std::filesystem::path>& paths);

// An output that is written once, at the end of a command.
class OutputFile {
 public:
  // Call before the work begins. kind: "a trace of sluice schedule"; is_ours: whether an existing text is of this kind.
  // Throws InputError as output_place(), and if the file holds anything else.
  OutputFile(std::filesystem::path path, std::string kind, bool (*is_ours)(const std::string& text));
  // Completely or not at all. Throws InputError as above (the file may have changed since), RunError (full disk).
  void write(const std::string& content) const;

 private:
  std::filesystem::path checked() const;

  std::filesystem::path path_;
  std::string kind_;
  bool (*is_ours_)(const std::string& text);
};

}  // namespace sluice
