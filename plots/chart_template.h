// Charts from templates: Vega-Lite in plots/page/NAME.vl.json with places for data.
//
//   "$name"                         the value of this name, or else its definition
//   "$name?"                        the same; left out, with its key, where it is null
//   {"$use": "name", "field": "b"}  the members of a definition, with further ones that replace its own
//   {"$if": "name", ...}            left out, with its key, where the value is null or false; "!name": where it is not
//   {"$each": "names", ...}         in an array: once for each element of a value or of a list in place; the members of
//                                   the element are values in it. With "$list": the elements of that list each time
//   {"$define": {...}, ...}         of the whole file: definitions, which are filled where they are used
//   {"$comment": "...", ...}        left out
//
// Definitions of frame.vl.json can be used in every template. A value is data and stands as it is, whatever it holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace sluice {

// Throws std::logic_error for a name that has no value.
Json filled_template(const Json& chart, const Json& values);

// Of plots/page/NAME.vl.json.
Json filled_chart(std::string_view name, const Json& values);

// With the values `title` and `subtitle` (its lines), which every chart of a report has.
Json filled_chart(std::string_view name, const std::string& title, const std::vector<std::string>& subtitle,
                  Json values);

}  // namespace sluice
