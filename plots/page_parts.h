// The style sheet and the scripts of report.html.
#pragma once

namespace sluice {

inline constexpr const char* kReportTitleEnd = "Sluice report</title>";  // a page without it is no report

extern const char* const kPageStyle;
extern const char* const kPageScript;
extern const char* const kTimelineScript;  // uses what kPageScript leaves in window.sluicePage

}  // namespace sluice
