// The first line of a checkpoint file: its case, and the sizes of the tensors whose bytes follow. It is read and
// checked before memory is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct CheckpointHeader {
  struct Stage {
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> elements;  // of every tensor
  };
  std::string of;  // model, plan, optimizer, precision and seed: a JSON object as text
  std::int64_t updates = 0;
  std::uint32_t checksum = 0;  // CRC-32 of the tensors' bytes
  std::vector<Stage> stages;
};

std::string to_line(const CheckpointHeader& header);

// bytes_after: of the file after the line; element: bytes of a number. Throws InputError at `path`: not a checkpoint,
// or sizes that are absurd or differ from the file's.
CheckpointHeader parse_checkpoint_header(const std::string& line, const std::string& path, std::uint64_t bytes_after,
                                         std::int64_t element);

}  // namespace sluice
