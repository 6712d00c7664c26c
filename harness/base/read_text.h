// Reading files: whole, and only if that is safe. A pipe or a device would never end, a folder has no contents, and a
// file that is far larger than its kind can be is rejected before memory is allocated.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace sluice {

// Throws InputError at the path, in our words: there is no such file, a folder, not a regular file, no permission, a
// name too long, links in a circle, larger than `most` bytes.
std::string read_text(const std::filesystem::path& path, std::size_t most, const std::string& advice = "");

// The contents of a gzip file, at most `most` bytes, in the file and unpacked. size_of: the expected number of bytes,
// from the beginning of the contents; reading stops soon after it. An empty file has empty contents. Throws InputError
// as read_text(), and for a file that is damaged, cut off or not gzip.
std::string read_gzip(const std::string& path, std::size_t most, const std::string& advice,
                      const std::function<std::size_t(std::string_view begin)>& size_of = {});

// The meaning of errno, as a clause: "there is no such file", "the disk is full".
std::string errno_text(int error);

// Replaces the file by `content`, completely or not at all: written to a new file in the same folder and renamed.
// Throws RunError: the path and why. The caller checks what may be replaced: OutputFile if a user names the file.
void write_text(const std::filesystem::path& path, const std::string& content);

}  // namespace sluice
