// Where a command may write: to a new file, or over a file of the same kind that an earlier command wrote. Anything
// else at the path (somebody's text, a binary, a folder, a device, a pipe) stays as it is.
#pragma once

#include <filesystem>
#include <string>

namespace sluice {

// The file that `path` names, behind its links: a regular file, or a new name in a folder. Throws InputError at the
// path for a folder, a device, a pipe, a socket, a link to no file, and a file or folder without permission to write.
std::filesystem::path output_place(const std::filesystem::path& path);

// An output that is written once, at the end of a command.
class OutputFile {
 public:
  // Call before the work begins. kind: "a trace of sluice schedule"; is_ours: whether a text that stands there is of
  // this kind. Throws InputError as output_place(), and where a file holds anything else.
  OutputFile(std::filesystem::path path, std::string kind, bool (*is_ours)(const std::string& text));
  // Whole or not at all. Throws InputError as above (the file may have changed since), RunError (full disk).
  void write(const std::string& content) const;

 private:
  std::filesystem::path checked() const;

  std::filesystem::path path_;
  std::string kind_;
  bool (*is_ours_)(const std::string& text);
};

}  // namespace sluice
