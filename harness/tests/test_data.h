// A data set for tests, in the format and under the name of Fashion-MNIST: ten classes that a small
// network learns in an epoch or two, in a folder to be named by $SLUICE_DATA.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace sluice {

// Class c is bright in the rows 2 c and 2 c + 1, on noise.
inline void write_test_data(const std::string& data_folder, std::uint32_t train = 640, std::uint32_t test = 200) {
  const std::string folder = data_folder + "/fashion-mnist";
  std::filesystem::create_directories(folder);
  std::mt19937 random(5);
  const auto write = [&](const std::string& stem, std::uint32_t samples) {
    std::vector<std::uint8_t> images, labels;
    const auto number = [](std::vector<std::uint8_t>& bytes, std::uint32_t n) {
      for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
    };
    for (const std::uint32_t n : {0x803u, samples, 28u, 28u}) number(images, n);
    for (const std::uint32_t n : {0x801u, samples}) number(labels, n);
    for (std::uint32_t i = 0; i < samples; ++i) {
      const auto label = static_cast<std::uint8_t>(random() % 10);
      labels.push_back(label);
      for (std::uint32_t pixel = 0; pixel < 28 * 28; ++pixel)
        images.push_back(static_cast<std::uint8_t>(random() % 60 + (pixel / 56 == label ? 180 : 0)));
    }
    const auto put = [&](const std::string& name, const std::vector<std::uint8_t>& bytes) {
      std::ofstream(folder + "/" + name, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    };
    put(stem + "-images-idx3-ubyte", images);
    put(stem + "-labels-idx1-ubyte", labels);
  };
  write("train", train);
  write("t10k", test);
}

}  // namespace sluice
