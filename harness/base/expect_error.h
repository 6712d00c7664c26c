// For tests: the text of the InputError that something throws.
#pragma once

#include <string>

#include "harness/base/error.h"

namespace sluice {

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace sluice
