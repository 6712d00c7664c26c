// The real executor as the commands see it. In a build without LibTorch each call is one clear
// refusal.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/session.h"

namespace sluice::engine {

bool available();
std::string torch();  // version, or "none"
std::unique_ptr<Session> session(const SessionSpec& spec);
CostGraph measure(const ModelGraph& model, std::int64_t micro_batch);

}  // namespace sluice::engine
