// The vectors of GraphPipe in harness/tests/data, for the tests of this folder.
#pragma once

#include <stdexcept>
#include <string>

#include "harness/base/json_reader.h"

namespace sluice {

inline const Json& vector_named(const std::string& id) {
  static const Json all = parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/graphpipe.json");
  for (const auto& v : all["vectors"])
    if (v["id"] == id) return v;
  throw std::logic_error("no vector " + id);
}

}  // namespace sluice
