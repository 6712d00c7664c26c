// Reference speeds of this machine, by which a stored profile is checked before it is used: a machine that is slower or
// faster than when the profile was made makes the profile's times wrong.
#pragma once

#include <string>

namespace sluice {

class Json;
class JsonReader;

// Of three fixed pieces of work. Only their ratios to the same speeds at another time mean something.
struct MachineSpeeds {
  double arithmetic = 0;  // a matrix product of one thread: multiply-adds per second
  double memory = 0;      // a copy by one thread of more than a core's own caches hold: bytes per second
  double message = 0;     // two threads that answer each other: round trips per second

  bool operator==(const MachineSpeeds&) const = default;
};

// Measures them by turns, in 0.8 seconds, each as the 10th percentile of the seconds of 200 short runs or more, because
// medians do not repeat. Of 40 gauges in a row, on two cores with a load of 5, the largest change from one to the next
// was 0.1 % (arithmetic), 1.6 % (memory) and 1.4 % (message); of best quartiles, in 80 gauges, 21, 14 and 377 %.
// The price: other programs that take a core by turns are not seen, only what slows nearly every run, such as a core at
// another clock rate or shared with another machine, shared caches, and cores that are farther apart.
MachineSpeeds measure_machine_speeds();

// Those that differ from `then` by more than 5 %: "memory is 12 % slower, messages are 30 % slower"; empty: none.
std::string changed_speeds(const MachineSpeeds& then, const MachineSpeeds& now);

Json to_json(const MachineSpeeds& speeds);
// Throws InputError for speeds that are not positive.
MachineSpeeds machine_speeds_from_json(JsonReader& reader);

}  // namespace sluice
