#include "harness/case/file_digests.h"

#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/precision_rules.h"
#include "harness/case/profile_workload.h"
#include "harness/model/cluster.h"
#include "harness/model/load_interference.h"
#include "harness/pipeline/system.h"
#include "results/store.h"

namespace sluice {

namespace {

// Files in workloads/, by what they held when cases first knew the content of their files, or since an edit that
// changes no case of that time (a calibration in 16 bit). A file that is not listed
// always has a digest, so that a new file needs no line.
const std::map<std::string, std::string>& recorded_contents() {
  static const std::map<std::string, std::string> all = {
      {"clusters/dgx1_v100.json", "545415e3753aa855"},
      {"clusters/dgx_a100_x2.json", "99a1f74edc943745"},
      {"clusters/dgx_h100.json", "40430269ddcdc1b0"},
      {"clusters/edge_mixed_16.json", "6a1e8d3ce871e808"},
      {"clusters/edge_rates_9.json", "20bcc0c9a87de724"},
      {"clusters/gtx1080ti_4x4.json", "376c239e2df9976f"},
      {"clusters/heterogeneous_edge.json", "75bb8478241648f0"},
      {"clusters/p100_x8.json", "8aefae190f19cfef"},
      {"clusters/p40_x8.json", "b31bfc29f7163560"},
      {"clusters/pipedream_a.json", "d521d8a7fe3a0186"},
      {"clusters/pipedream_b.json", "13d2ecc1587078b3"},
      {"clusters/pipedream_c.json", "9fafca6fce079354"},
      {"clusters/pipeedge_16.json", "21b561fcef0950a9"},
      {"clusters/pipeedge_8.json", "cf97e9ee89c40410"},
      {"clusters/pipeedge_rcc_16.json", "3ddd44f6f369c901"},
      {"clusters/rcc_ve_16.json", "7452e339982f518a"},
      {"clusters/summit_v100.json", "f73e936bf0bf0b36"},
      {"clusters/tpu_v3_32.json", "6462a374b71ba2ee"},
      {"clusters/two_level_v100.json", "daf214f7c2dc3bbc"},
      {"clusters/uneven_3.json", "9c0fa171c0e0d69d"},
      {"clusters/uneven_4.json", "4464bbf587fac722"},
      {"clusters/uneven_v100.json", "477f6646d69c53ce"},
      {"devices/a100_pcie_fp32.json", "509f8742fa5d960a"},
      {"devices/gtx_1080ti_fp32.json", "6b8b05872b23bf67"},
      {"devices/h100_sxm_fp32.json", "b6fcee1fdae7279f"},
      {"devices/p100_pcie_fp32.json", "e9d436d9d0f4026d"},
      {"devices/t4_fp16.json", "709c4cba44c8240d"},
      {"devices/t4_fp32.json", "864633c5fbc30379"},
      {"devices/titan_x_maxwell_fp32.json", "8515ce01fee007c0"},
      {"devices/titan_x_pascal_fp32.json", "64d1a5f77df5e7cf"},
      {"devices/titan_xp_fp32.json", "44861b756ca22876"},
      {"devices/v100_pcie_fp32.json", "7147d818818996c6"},
      {"devices/v100_sxm2_fp16.json", "c3115105f88d6dff"},
      {"devices/v100_sxm2_fp32.json", "b778e92621b21dfd"},
  };
  return all;
}

std::string digest_of_file(const std::string& file) { return digest(Json(read_text_file(file))); }

}  // namespace

std::vector<CaseFile> files_of(const RunCase& c) {
  std::vector<CaseFile> files;
  const std::string folder = source_folder() + "/workloads";
  const auto add = [&](const std::string& what, const std::string& file) {
    if (!file.empty()) files.push_back({what, file, digest_of_file(file)});
  };
  if (!is_this_machine(c)) {
    add("cluster", cluster_file(c.cluster, folder + "/clusters"));
    if (is_calibrated(c.costs)) {
      std::set<std::string> calibrations;
      for (const Device& device : load_cluster(c.cluster, folder + "/clusters").devices)
        calibrations.insert(device.calibration(storage_of(c)));
      for (const std::string& name : calibrations) add(name, folder + "/devices/" + name + ".json");
    }
  }
  if (const ProfileWorkload* profile = profile_workload(c.workload, c.costs))
    files.push_back({"workload", c.workload, profile->digest});
  else if (is_cost_file(c.costs))
    add("costs", c.costs);
  add("interference", interference_file(c.interference));
  for (const OptionSpec& spec : find_system(c.system, "system").options) {
    const auto given = c.options.find(spec.name);
    if (spec.check_file && given != c.options.end() && given->second != spec.default_value)
      add(spec.name, given->second);
  }
  return files;
}

std::string file_digests(const RunCase& c) {
  const std::string shipped = source_folder() + "/workloads/";
  std::string text;
  for (const CaseFile& file : files_of(c)) {
    const auto recorded =
        recorded_contents().find(file.file.starts_with(shipped) ? file.file.substr(shipped.size()) : "");
    if (recorded != recorded_contents().end() && recorded->second == file.digest) continue;
    text += (text.empty() ? "" : ",") + file.what + ":" + file.digest;
  }
  return text;
}

void require_same_files(const RunCase& c) {
  if (const std::string now = file_digests(c); now != c.file_digests)
    throw InputError("", "the case was read with the files '" + c.file_digests + "', which are '" + now + "' now",
                     "run it again: what it reads was edited while the sweep ran");
}

}  // namespace sluice
