// Events in the text form of tests: "0F0 1-2", "gather 0 0-1.1".
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "harness/program/trace.h"

namespace sluice {

inline std::vector<std::string> timed_texts(const std::vector<TraceEvent>& events) {
  std::vector<std::string> result;
  for (const TraceEvent& e : events) {
    char text[96];
    std::snprintf(text, sizeof text, "%s %g-%g", to_text(e.instruction).c_str(), e.start, e.end);
    result.emplace_back(text);
  }
  return result;
}

}  // namespace sluice
