// The seal of a stored record: a member with a hash of the others, so that a line that was edited after the run is not
// read as a result. It finds mistakes, not forgery. Records of versions without seals have none.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

class Json;

inline constexpr std::string_view kSeal = "seal";

// 16 hexadecimal digits: FNV-1a, 64 bits.
std::string hash_of_text(std::string_view text);

// `object`, a dump of a JSON object with members, with the seal appended.
std::string sealed(std::string object);

// line: the text of the object `value`, in any order and spacing; `value` may lack parts of it, but not the seal. False
// if there is no seal.
bool has_broken_seal(std::string_view line, const Json& value);

}  // namespace sluice
