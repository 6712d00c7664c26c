// The profiles that tests plan and run with.
#pragma once

#include "harness/case/profile_store.h"

namespace sluice {

// One for all tests of a program, in the default folder.
inline ProfileStore& test_profiles() {
  static ProfileStore profiles(default_profile_folder());
  return profiles;
}

}  // namespace sluice
