// Entry: one experiment as written in a sweep or as flags. resolve() (settings.h) makes its case.
#pragma once

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

// Every key is a setting and has one value. Settings that are left out have their defaults.
struct Entry {
  Json values;
  PlaceOf place;  // of a value, for errors
};

}  // namespace sluice
