// Binary gettext catalogues (.mo; GNU gettext manual, "The Format of GNU MO Files"): two tables of (length, offset),
// originals and translations, in the byte order of the machine that wrote the file. A context stands before the
// original with a \x04 between; plural forms stand one after another with \0 between.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct CatalogueEntry {
  std::string context;                    // "" where there is none
  std::string original, original_plural;  // plural: "" where there is none
  std::vector<std::string> translations;  // one, or one a plural form; not empty
};

// In the file's order, without the header entry (the one of the empty original). Throws InputError naming the file:
// missing, not such a file, a newer format, cut off, a table or string outside of the file, a string without its
// closing \0.
std::vector<CatalogueEntry> read_catalogue(const std::string& path);

}  // namespace sluice
