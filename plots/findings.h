// The pages of results/findings: a study's (study.h) question and runs, and tables and pictures made from its reference
// records. A page depends on nothing else, so a test can check whether a committed one is current.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/base/output_file.h"
#include "plots/charts.h"
#include "plots/renderer.h"
#include "plots/study.h"
#include "results/record.h"

namespace sluice {

struct FindingsPage {
  std::string name;      // of the study; its file is NAME.md
  std::string markdown;  // refers to its pictures as NAME.PICTURE.svg in its folder
  std::vector<Chart> pictures;
};

// Reads the study's records and makes its page. Throws InputError as read_study and read_records do.
FindingsPage findings_page(const std::filesystem::path& study);
FindingsPage findings_page(const Study& study, std::span<const Record> records);

// The last line of a picture's file: it identifies the specification of the picture.
std::string picture_mark(const Chart& picture);

// A page that a command of Sluice writes, and a picture on one. They replace an earlier page or picture, and no other
// file: throws InputError before the work begins.
OutputFile page_file(const std::filesystem::path& file);
OutputFile picture_file(const std::filesystem::path& file);

// Writes OUT/NAME.md and the pictures of every study, and removes pictures that these pages no longer use. Returns the
// pages' files. Throws RunError as render_charts does, or if OUT cannot be written.
std::vector<std::filesystem::path> write_findings(std::span<const std::filesystem::path> studies,
                                                  const std::filesystem::path& out, const Renderer& renderer);

}  // namespace sluice
