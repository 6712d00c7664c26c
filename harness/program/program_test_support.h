// Helpers for this room's tests of programs and violations.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

// The instructions of a rank, one per line.
inline std::string text_of(const std::vector<Instruction>& rank) {
  std::string text;
  for (const Instruction& i : rank) text += to_text(i) + "\n";
  return text;
}

// `found` is one violation, of this kind and with this text.
inline void expect_only(const std::vector<Violation>& found, Violation::Kind kind, const std::string& text) {
  ASSERT_EQ(found.size(), 1u) << text;
  EXPECT_EQ(found[0].kind, kind);
  EXPECT_EQ(found[0].text, text);
}

}  // namespace sluice
