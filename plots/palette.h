// The colours of systems: a system has one colour in all charts made from the same records, and single_device is grey.
#pragma once

#include <map>
#include <span>
#include <string>

#include "results/record.h"

namespace sluice {

class Palette {
 public:
  explicit Palette(std::span<const Record> records);
  const std::string& color(const std::string& system) const;

 private:
  std::map<std::string, std::string> colors_;
};

}  // namespace sluice
