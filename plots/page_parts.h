// The style sheet and the script of report.html.
#pragma once

namespace sluice {

extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace sluice
