// For tests: the text of the InputError that something throws, and documents with a mistake.
#pragma once

#include <string>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/json.h"

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

// What stands at a JSON pointer ("/stages/0/layers"); makes what is missing.
inline Json& at_pointer(Json& json, std::string_view pointer) {
  Json* value = &json;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string key(pointer.substr(0, pointer.find('/')));
    pointer.remove_prefix(key.size());
    value = &(value->is_array() ? (*value)[std::stoul(key)] : (*value)[key]);
  }
  return *value;
}

}  // namespace sluice
