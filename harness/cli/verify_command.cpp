#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/visible_text.h"
#include "harness/cli/commands.h"
#include "harness/run/verify.h"

namespace sluice {

int verify_command(const VerifyArguments& a) {
  if (!(a.tolerance > 0)) throw InputError("--tolerance", "must be greater than 0");
  const auto results = verify(parse_json_file(a.cases), a.cases, a.tolerance, a.only);
  int pass = 0, mismatch = 0, unsupported = 0;
  double largest = 0;
  Json list = Json::array();
  for (const VerifyResult& r : results) {
    const bool ok = r.verdict == VerifyResult::Verdict::pass, wrong = r.verdict == VerifyResult::Verdict::mismatch;
    (ok ? pass : wrong ? mismatch : unsupported)++;
    if (ok) largest = std::max(largest, r.largest_error);
    const char* verdict = ok ? "pass" : wrong ? "MISMATCH" : "unsupported";
    list.push_back({{"name", r.name},
                    {"verdict", ok      ? "pass"
                                : wrong ? "mismatch"
                                        : "unsupported"},
                    {"largest_error", r.largest_error},
                    {"detail", r.detail}});
    if (!a.json && !ok) fmt::print("{:<12} {}: {}\n", verdict, visible(r.name), visible(r.detail));
  }
  if (a.json) {
    fmt::print("{}\n", Json{{"cases", list},
                            {"pass", pass},
                            {"mismatch", mismatch},
                            {"unsupported", unsupported},
                            {"tolerance", a.tolerance}}
                           .dump(2));
  } else {
    fmt::print("{} pass (largest error {:.2g}), {} mismatch, {} unsupported\n", pass, largest, mismatch, unsupported);
  }
  return mismatch + unsupported > 0 ? 1 : 0;
}

}  // namespace sluice
