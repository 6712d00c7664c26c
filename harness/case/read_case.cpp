#include <map>
#include <string>
#include <utility>

#include "harness/case/setting_rules.h"
#include "harness/case/settings.h"

namespace sluice {

namespace {

// Reads the settings one after the other, canonicalizes them, and says which of those that were given decide nothing.
class EntryReading {
 public:
  explicit EntryReading(const Entry& entry) : entry_(entry), reader_(entry.values, entry.place), reading_{reader_} {}

  ReadCase run() {
    for (const Setting& setting : settings()) {
      if (setting.fill) setting.fill(reading_);
      setting.value.read(reading_, setting.key);
      if (const Json* given = entry_.values.find(setting.key)) {
        const Json read = setting.value.write(reading_.c);
        given_[&setting] = read.is_null() ? *given : read;
      }
      if (setting.check) setting.check(reading_);
    }
    reader_.no_other_keys();
    for (const Setting& setting : settings()) {
      if (setting.unused && setting.unused(reading_.c, *reading_.system)) setting.value.reset(reading_.c);
      if (setting.canonicalize) setting.canonicalize(reading_.c, *reading_.system);
    }
    for (const auto& [setting, value] : given_) compare(*setting, value);
    return {std::move(reading_.c), std::move(without_effect_)};
  }

 private:
  void compare(const Setting& setting, const Json& given) {
    const RunCase& c = reading_.c;
    if (setting.key == "options") return compare_options();
    if (setting.key == "cluster") return compare_cluster();
    // The sizes decide the batch and the number of micro-batches.
    if (setting.key == "microbatch_sizes" &&
        !(entry_.values.contains("batch") && entry_.values.contains("microbatches")))
      return;
    const bool untrained = setting.key == "optimizer" && !c.train;
    const Json used = untrained ? setting::untrained_optimizer_json(c) : setting.value.write(c);
    const bool divides = c.update == UpdateAfter::micro_batch;  // the batch, by the micro-batches
    const bool halves = !c.microbatch_sizes.empty() && !entry_.values.find("microbatch_sizes");  // some micro-batches
    const bool as_given = used == given || used == entry_.values.at(setting.key);
    if (as_given || ((divides || halves) && (setting.key == "batch" || setting.key == "microbatches"))) return;
    if (!used.is_object() || !given.is_object()) return add("/" + setting.key, setting.when_unused);
    const auto inner = [](const Json& object, const std::string& key) {
      const Json* value = object.find(key);
      return value ? *value : Json();
    };
    for (const auto& item : entry_.values.at(setting.key).items())
      if (const Json taken = inner(used, item.first); taken != inner(given, item.first) && taken != item.second)
        add("/" + setting.key + "/" + item.first, setting.when_unused);
  }

  void compare_options() {
    for (const auto& item : entry_.values.at("options").items()) {
      const std::string value = item.second.text();
      if (reading_.c.options.at(item.first) != value)
        add("/options/" + item.first, setting::why_option_is_unused(reading_, item.first));
    }
  }

  // Keys of the cluster's description.
  void compare_cluster() {
    static constexpr std::pair<const char*, const char*> kKeys[] = {
        {"host", "no activations move to the hosts"},
        {"pair_share", "no op runs in an overlapped pair"},
        {"pairs", "there are no overlapped pairs of tensor-parallel groups"}};
    const std::string& given = entry_.values.at("cluster").text();
    for (const auto& [key, why] : kKeys)
      if (setting::without_key(given, key) != given &&
          setting::without_key(reading_.c.cluster, key) == reading_.c.cluster)
        add(std::string("/cluster/") + key, why);
  }

  void add(const std::string& pointer, const std::string& why) { without_effect_.emplace(pointer, why); }

  const Entry& entry_;
  JsonReader reader_;
  CaseReading reading_;
  std::map<const Setting*, Json> given_;  // as they were read
  std::map<std::string, std::string> without_effect_;
};

}  // namespace

ReadCase read_case(const Entry& entry) { return EntryReading(entry).run(); }

}  // namespace sluice
