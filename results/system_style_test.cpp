// The table of styles is whole, and its systems can be told apart by people with each kind of colour blindness.
#include "results/system_style.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <set>

#include "harness/pipeline/system.h"

namespace sluice {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

// Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG
// 2009, severity 1, on linear RGB: as everyone sees, protanopia, deuteranopia, tritanopia.
constexpr std::array<Matrix, 4> kSights = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}},
}};

Triple linear_rgb(const std::string& color) {
  Triple rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(color.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

double row_times(const Triple& row, const Triple& v) { return row[0] * v[0] + row[1] * v[1] + row[2] * v[2]; }

// CIE L*a*b* under D65, of the colour as that sight sees it.
Triple lab(const std::string& color, const Matrix& sight) {
  const Triple rgb = linear_rgb(color);
  Triple seen{};
  for (std::size_t i = 0; i < 3; ++i) seen[i] = std::clamp(row_times(sight[i], rgb), 0.0, 1.0);
  const auto f = [](double t) { return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116; };
  const double x = f(row_times({0.4124564, 0.3575761, 0.1804375}, seen) / 0.95047);
  const double y = f(row_times({0.2126729, 0.7151522, 0.0721750}, seen));
  const double z = f(row_times({0.0193339, 0.1191920, 0.9503041}, seen) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

// CIEDE2000 with all factors 1: Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", 2005.
double difference(const Triple& first, const Triple& second) {
  constexpr double pi = std::numbers::pi, turn = 2 * pi;
  const auto seventh = [](double c) { return std::sqrt(std::pow(c, 7) / (std::pow(c, 7) + std::pow(25, 7))); };
  const double mean_ab = (std::hypot(first[1], first[2]) + std::hypot(second[1], second[2])) / 2;
  const double g = 1 + (1 - seventh(mean_ab)) / 2;
  const double c1 = std::hypot(g * first[1], first[2]), c2 = std::hypot(g * second[1], second[2]);
  const auto hue = [&](const Triple& of, double c) {
    const double h = c == 0 ? 0 : std::atan2(of[2], g * of[1]);
    return h < 0 ? h + turn : h;
  };
  const double h1 = hue(first, c1), h2 = hue(second, c2);
  double dh = c1 * c2 == 0 ? 0 : h2 - h1;
  if (dh > pi) dh -= turn;
  if (dh < -pi) dh += turn;
  const double dl = second[0] - first[0], dc = c2 - c1, big_dh = 2 * std::sqrt(c1 * c2) * std::sin(dh / 2);
  const double l = (first[0] + second[0]) / 2, c = (c1 + c2) / 2;
  double h = (h1 + h2) / (c1 * c2 == 0 ? 1 : 2);
  if (c1 * c2 != 0 && std::abs(h1 - h2) > pi) h += h1 + h2 < turn ? pi : -pi;
  const auto degrees = [](double d) { return d * pi / 180; };
  const double t = 1 - 0.17 * std::cos(h - degrees(30)) + 0.24 * std::cos(2 * h) + 0.32 * std::cos(3 * h + degrees(6)) -
                   0.2 * std::cos(4 * h - degrees(63));
  const double theta = degrees(30) * std::exp(-std::pow((h - degrees(275)) / degrees(25), 2));
  const double sl = 1 + 0.015 * std::pow(l - 50, 2) / std::sqrt(20 + std::pow(l - 50, 2));
  const double sc = 1 + 0.045 * c, sh = 1 + 0.015 * c * t, rt = -std::sin(2 * theta) * 2 * seventh(c);
  return std::sqrt(std::pow(dl / sl, 2) + std::pow(dc / sc, 2) + std::pow(big_dh / sh, 2) +
                   rt * (dc / sc) * (big_dh / sh));
}

// The smallest over all sights.
double apart(const std::string& a, const std::string& b) {
  double least = 1e9;
  for (const Matrix& sight : kSights) least = std::min(least, difference(lab(a, sight), lab(b, sight)));
  return least;
}

double lightness(const std::string& color) { return lab(color, kSights[0])[0]; }

// Every two of the table once.
template <class Check>
void for_pairs(Check check) {
  for (const auto& [a, one] : system_styles())
    for (const auto& [b, other] : system_styles())
      if (a < b) check(a, one, b, other);
}

TEST(SystemStyle, TheDistanceOfColoursIsThatOfItsPublishedTestData) {
  EXPECT_NEAR(difference({50, 2.6772, -79.7751}, {50, 0, -82.7485}), 2.0425, 1e-4);
  EXPECT_NEAR(difference({50, 2.5, 0}, {58, 24, 15}), 19.4535, 1e-4);
  EXPECT_NEAR(difference({2.0776, 0.0795, -1.1350}, {0.9033, -0.0636, -0.5514}), 0.9082, 1e-4);
  EXPECT_NEAR(lightness("#777777"), 50.03, 0.01);
}

TEST(SystemStyle, EverySystemHasARowAndEveryRowIsASystem) {
  const std::set<std::string> others = {"pytorch"};  // whose records harness/peers makes
  std::set<std::string> names = others;
  for (const System* system : shipped_systems()) names.insert(system->name);
  std::set<std::string> rows, titles;
  for (const auto& [name, style] : system_styles()) {
    rows.insert(name);
    EXPECT_TRUE(titles.insert(style.title).second) << name << ": another system has the title " << style.title;
  }
  EXPECT_EQ(rows, names) << "plots/systems.json needs one row a system";
}

TEST(SystemStyle, EveryTwoSystemsDifferInColourForEverySightOrElseInMarkerAndDash) {
  for_pairs([](const std::string& a, const SystemStyle& one, const std::string& b, const SystemStyle& other) {
    const double distance = apart(one.color, other.color);
    EXPECT_TRUE(distance >= 10 || (one.marker != other.marker && one.dash != other.dash))
        << a << " and " << b << " are " << distance << " apart and share a marker or a dash";
  });
}

TEST(SystemStyle, EveryTwoSystemsDifferInGrey) {
  for_pairs([](const std::string& a, const SystemStyle& one, const std::string& b, const SystemStyle& other) {
    EXPECT_TRUE(one.marker != other.marker || one.dash != other.dash) << a << " and " << b;
    EXPECT_TRUE(std::abs(lightness(one.color) - lightness(other.color)) >= 10 || one.marker != other.marker)
        << a << " and " << b << " have one grey and one marker";
  });
}

TEST(SystemStyle, TheSystemsThatAreComparedMostDifferInColourForEverySight) {
  const std::vector<std::string> max_compared = {"single_device",    "data_parallel", "gpipe",     "one_f_one_b",
                                                 "interleaved_1f1b", "zero_bubble",   "pipedream", "pipedream_2bw",
                                                 "spectrain",        "pipeoptim"};
  for (std::size_t i = 0; i < max_compared.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_GE(apart(system_style(max_compared[i]).color, system_style(max_compared[j]).color), 12)
          << max_compared[i] << " and " << max_compared[j];
}

TEST(SystemStyle, EveryColourIsSeenOnWhitePaper) {
  for (const auto& [name, style] : system_styles()) {
    EXPECT_LE(lightness(style.color), 85) << name;
    EXPECT_GE(lightness(style.color), 20) << name;
  }
}

TEST(SystemStyle, ASystemWithoutARowIsBlackWithItsName) {
  const SystemStyle style = system_style("of_another_program");
  EXPECT_EQ(style.title, "of_another_program");
  EXPECT_EQ(style.color, "#000000");
  EXPECT_EQ(style.marker, system_style("of_another_program").marker);
}

}  // namespace
}  // namespace sluice
