// Charts from templates: Vega-Lite in plots/page/NAME.vl.json with places for data.
//
//   "$name"                         the value of this name, or else its definition
//  "$name?"                        the same; left out, with its key, if it is null
//  {"$use": "name", "field": "b"}  the members of a definition, with further ones that replace its own
//  {"$if": "name", ...}            left out, with its key, if the value is null or false; "!name": if it is neither
//  {"$each": "names", ...}         in an array: once for each element of a value or of a given list; the members of
//                                   the element are values in it. With "$list": the elements of that list each time
//  {"$define": {...}, ...}         of the whole file: definitions, which are expanded at each use
//   {"$comment": "...", ...}        left out
//
// Definitions of frame.vl.json can be used in every template. A value is data: it is inserted unchanged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace sluice {

// Throws std::logic_error for a name that has no value.
Json filled_template(const Json& chart, const Json& values);

// Fills plots/page/NAME.vl.json.
Json filled_chart(std::string_view name, const Json& values);

// With the values `title` and `subtitle` (its lines), which every chart of a report has.
Json filled_chart(std::string_view name, const std::string& title, const std::vector<std::string>& subtitle,
                  Json values);

}  // namespace sluice
