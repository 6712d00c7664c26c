#include "harness/pipeline/provenance.h"

#include <gtest/gtest.h>

#include "harness/pipeline/provenance_note.h"

namespace sluice {
namespace {

System titled(const char* title, Provenance from) {
  return {.name = "", .title = title, .citation = "", .written_from = std::move(from), .schedule = nullptr};
}

TEST(ProvenanceTest, NamesEverySourceOnceAndTheSystemsFirst) {
  const Provenance plain = WrittenFrom::paper;
  EXPECT_EQ(sources_text(plain), "paper");
  EXPECT_EQ(parts_text(plain), "paper");
  const Provenance mixed = {
      WrittenFrom::code,
      {{"planner", WrittenFrom::memory}, {"weights", WrittenFrom::code}, {"recomputation", WrittenFrom::memory}},
      "Nothing."};
  EXPECT_EQ(sources_text(mixed), "code, memory");
  EXPECT_EQ(parts_text(mixed), "code; planner: memory; weights: code; recomputation: memory");
}

TEST(ProvenanceTest, TheNoteNamesWhatWasNeitherReadInThePaperNorInCode) {
  const System remembered = titled("SPP", {WrittenFrom::memory, {{"rounds", WrittenFrom::ours}}, "Rounds."});
  const System planner =
      titled("2BW", {WrittenFrom::code, {{"planner", WrittenFrom::memory}, {"feedback", WrittenFrom::memory}}});
  const System abstract = titled("LayerPipe", WrittenFrom::abstract);
  const System read = titled("GPipe", WrittenFrom::paper), reference = titled("One device", WrittenFrom::ours);
  const std::vector<const System*> all = {&remembered, &planner, &abstract, &read, &reference};
  const auto any = [](const System&, const std::string&) { return true; };
  EXPECT_EQ(
      provenance_note(all, any),
      "Written from memory of the paper: SPP; planner and feedback of 2BW. Written from an abstract or from notes "
      "by others: LayerPipe. Our own construction: rounds of SPP.");
  const auto no_planner = [](const System&, const std::string& part) { return part != "planner"; };
  const std::vector<const System*> one = {&planner}, known = {&read, &reference};
  EXPECT_EQ(provenance_note(one, no_planner), "Written from memory of the paper: feedback of 2BW.");
  EXPECT_EQ(provenance_note(known, any), "All systems here were written from papers or released code.");
  EXPECT_EQ(provenance_note({}, any), "");
}

}  // namespace
}  // namespace sluice
