// The profiles for plans and runs of tests.
#pragma once

#include "harness/case/profile_store.h"

namespace sluice {

// A machine whose speed never changes, so that no stored profile is measured again.
inline MachineSpeeds steady_speeds() { return {.arithmetic = 1, .memory = 1, .message = 1}; }

// One for all tests of a program, in a subfolder of the default one.
inline ProfileStore& test_profiles() {
  static ProfileStore profiles(default_profile_folder() + "/steady", 3, {.speeds = steady_speeds});
  return profiles;
}

}  // namespace sluice
