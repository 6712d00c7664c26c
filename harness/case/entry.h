// Entry: one experiment as it was written, in a sweep or as flags. resolve() (settings.h) makes its case.
#pragma once

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

// Every key is a setting's and holds one value. What it leaves out has the setting's default.
struct Entry {
  Json values;
  PlaceOf place;  // of a value, for errors
};

}  // namespace sluice
