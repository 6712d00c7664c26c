#include "harness/exec/pinning.h"

#include <sluice_build.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/exec/bytes.h"

#ifdef SLUICE_HAVE_HWLOC
#include <hwloc.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#endif

namespace sluice {

std::vector<int> assign_cores(const std::vector<UsableCores>& ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t r) { return ranks[r].cores.size(); });
  std::map<std::string, std::set<int>> taken;  // by machine
  std::vector<int> result(ranks.size(), -1);
  for (const std::size_t r : order) {
    auto& used = taken[ranks[r].machine];
    const auto free = std::ranges::find_if(ranks[r].cores, [&](int c) { return !used.contains(c); });
    if (free == ranks[r].cores.end()) {
      const auto here = std::ranges::count(ranks, ranks[r].machine, &UsableCores::machine);
      throw InputError("pin",
                       std::to_string(here) + " ranks on a machine, and rank " + std::to_string(r) +
                           " finds none of its " + std::to_string(ranks[r].cores.size()) + " cores free",
                       "use fewer ranks, let the launcher give more cores, or use --pin none");
    }
    used.insert(*free);
    result[r] = *free;
  }
  return result;
}

#ifdef SLUICE_HAVE_HWLOC

namespace {

// Read once: it does not change while a process lives.
hwloc_topology_t topology() {
  static const hwloc_topology_t loaded = [] {
    hwloc_topology_t t = nullptr;
    if (hwloc_topology_init(&t) != 0 || hwloc_topology_load(t) != 0)
      throw InputError("pin", "hwloc cannot read this machine's topology", "use --pin none");
    return t;
  }();
  return loaded;
}

struct Bitmap {
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  Bitmap() = default;
  Bitmap(const Bitmap&) = delete;
  ~Bitmap() { hwloc_bitmap_free(set); }
};

// Some virtual machines know of processing units only.
hwloc_obj_type_t core_type() {
  return hwloc_get_nbobjs_by_type(topology(), HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

// The processing units of a core that this process may use.
void usable_part(int core, Bitmap& part) {
  Bitmap process;
  if (hwloc_get_cpubind(topology(), process.set, HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(process.set, hwloc_topology_get_allowed_cpuset(topology()));
  const hwloc_obj_t object = hwloc_get_obj_by_type(topology(), core_type(), static_cast<unsigned>(core));
  hwloc_bitmap_and(part.set, object->cpuset, process.set);
}

std::string list_of(const Bitmap& cpus) {
  char* text = nullptr;
  hwloc_bitmap_list_asprintf(&text, cpus.set);
  const std::string result = text ? text : "";
  std::free(text);
  return result;
}

// A name that all processes on this running operating system share, and no others.
std::string this_machine() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

UsableCores usable_cores() {
  UsableCores usable{this_machine(), {}};
  const int n = hwloc_get_nbobjs_by_type(topology(), core_type());
  for (int core = 0; core < n; ++core) {
    Bitmap part;
    usable_part(core, part);
    if (!hwloc_bitmap_iszero(part.set)) usable.cores.push_back(core);
  }
  return usable;
}

class HwlocPinning : public Pinning {
 public:
  HwlocPinning(int ranks, ProcessGroup* processes) : sets_(static_cast<std::size_t>(ranks)) {
    std::vector<UsableCores> usable(sets_.size());
    UsableCores own;
    agree_on_error(processes, [&] { own = usable_cores(); });
    std::ranges::fill(usable, own);
    if (processes) {
      ByteWriter out;
      out.text(own.machine);
      out.list(own.cores);
      const std::vector<std::string> all = processes->all_gather(out.bytes());
      for (std::size_t r = 0; r < usable.size(); ++r) {
        ByteReader in(all[r]);
        usable[r].machine = in.text();
        in.list(usable[r].cores);
      }
    }
    const std::vector<int> cores = assign_cores(usable);
    for (std::size_t r = 0; r < sets_.size(); ++r)
      if (!processes || processes->rank() == static_cast<int>(r)) {
        usable_part(cores[r], sets_[r]);
        cpus_.push_back(list_of(sets_[r]));
      }
    if (processes) cpus_ = processes->all_gather(cpus_.front());
  }

  void bind(Rank rank) const override {
    const Bitmap& core = sets_[rank.index()];
    Bitmap now;
    if (hwloc_set_cpubind(topology(), core.set, HWLOC_CPUBIND_THREAD) != 0 ||
        hwloc_get_cpubind(topology(), now.set, HWLOC_CPUBIND_THREAD) != 0 || !hwloc_bitmap_isequal(now.set, core.set))
      throw std::runtime_error("could not be pinned to CPU " + list_of(core));
  }

  const std::vector<std::string>& cpus() const override { return cpus_; }

 private:
  std::vector<Bitmap> sets_;  // of ranks elsewhere: empty
  std::vector<std::string> cpus_;
};

}  // namespace

bool hwloc_built() { return true; }

std::string hwloc_library() {
  const unsigned version = hwloc_get_api_version();
  return "hwloc " + std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff) + "." +
         std::to_string(version & 0xff);
}

std::unique_ptr<Pinning> pin_to_cores(int ranks, ProcessGroup* processes) {
  return std::make_unique<HwlocPinning>(ranks, processes);
}

#else

bool hwloc_built() { return false; }
std::string hwloc_library() { return ""; }
std::unique_ptr<Pinning> pin_to_cores(int, ProcessGroup*) {
  throw InputError("pin", "this build has no hwloc",
                   "install it (Debian: libhwloc-dev) and build again, or use --pin none");
}

#endif

}  // namespace sluice
