// The real executor as the commands see it. In a build without LibTorch each call is one clear
// refusal.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/session.h"

namespace sluice::engine {

bool available();
std::string torch();                             // version, or "none"
std::string refusal(const std::string& device);  // why ranks cannot run on it here, or ""
nlohmann::json cuda();                           // describe_cuda(), or null
std::unique_ptr<Session> session(const SessionSpec& spec);
CostGraph measure(const ModelGraph& model, std::int64_t micro_batch, const std::string& device = "cpu");

}  // namespace sluice::engine
