#include "harness/model/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <queue>
#include <set>
#include <span>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/source_folder.h"
#include "harness/base/split.h"

namespace sluice {

static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
static constexpr int kMaxDevices = 100'000;

Paths::Paths(const Cluster& cluster) : cluster_(cluster) {
  if (cluster.all_to_all) return;  // nothing is searched
  first_.assign(cluster.devices.size() + 1, 0);
  neighbours_.resize(2 * cluster.links.size());
  distance_.assign(cluster.devices.size(), kUnlimited);
  reached_by_.assign(cluster.devices.size(), Step{0, false});
  for (const Link& link : cluster.links) {
    ++first_[link.from.index() + 1];
    ++first_[link.to.index() + 1];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t l = 0; l < cluster.links.size(); ++l) {
    const Link& link = cluster.links[l];
    // 1 MiB is the order of an activation; a zero-cost link still counts as a hop.
    const double cost = link.latency.value + 1048576.0 / link.bandwidth + 1e-12;
    neighbours_[next[link.from.index()]++] = {link.to.index(), l, false, cost};
    neighbours_[next[link.to.index()]++] = {link.from.index(), l, true, cost};
  }
}

std::vector<Hop> Paths::between(DeviceId from, DeviceId to) {
  if (from == to) return {};
  if (cluster_.all_to_all) {
    const auto [first, second] = std::minmax(from, to);
    Link link = *cluster_.all_to_all;
    link.from = first;
    link.to = second;
    return {{link, first.index() * cluster_.devices.size() + second.index(), to < from}};
  }
  using Entry = std::pair<double, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<std::size_t> touched;
  const auto reach = [&](std::size_t device, double distance, Step by) {
    if (distance_[device] == kUnlimited) touched.push_back(device);
    distance_[device] = distance;
    reached_by_[device] = by;
  };
  const auto neighbours = [&](std::size_t device) {
    return std::span(neighbours_).subspan(first_[device], first_[device + 1] - first_[device]);
  };
  reach(from.index(), 0, {0, false});
  queue.push({0, from.index()});
  // A direct link bounds the search before it begins: with a link a pair it ends at once.
  for (const Neighbour& n : neighbours(from.index()))
    if (n.device == to.index() && n.cost < distance_[n.device]) reach(n.device, n.cost, {n.link, n.reversed});
  while (!queue.empty() && queue.top().first < distance_[to.index()]) {
    const auto [d, device] = queue.top();
    queue.pop();
    if (d > distance_[device]) continue;
    for (const Neighbour& n : neighbours(device)) {
      const double distance = d + n.cost;
      if (distance >= distance_[n.device] || distance >= distance_[to.index()]) continue;
      reach(n.device, distance, {n.link, n.reversed});
      queue.push({distance, n.device});
    }
  }
  const bool reached = distance_[to.index()] != kUnlimited;
  for (const std::size_t device : touched) distance_[device] = kUnlimited;
  if (!reached)
    throw InputError("cluster '" + cluster_.name + "'",
                     "no path between devices " + std::to_string(from.value) + " and " + std::to_string(to.value),
                     "add a link that connects them");
  std::vector<Hop> hops;
  for (std::size_t at = to.index(); at != from.index();) {
    const auto [number, reversed] = reached_by_[at];
    const Link& link = cluster_.links[number];
    hops.push_back({link, number, reversed});
    at = reversed ? link.to.index() : link.from.index();
  }
  std::ranges::reverse(hops);
  return hops;
}

std::vector<Hop> path(const Cluster& cluster, DeviceId from, DeviceId to) { return Paths(cluster).between(from, to); }

// A quantity with its unit. A bare number would be bytes to one reader and megabytes to the next.
static std::string quantity_text(JsonReader& reader, const std::string& key, const std::string& example) {
  if (reader.raw(key).is_number())
    reader.fail(key, reader.raw(key).dump() + " has no unit", "write it like \"" + example + "\"");
  return reader.text(key);
}

static Bytes bytes_value(JsonReader& reader, const std::string& key, Bytes otherwise) {
  if (!reader.has(key)) return otherwise;
  const Bytes bytes = parse_bytes(quantity_text(reader, key, "16GiB"), reader.where(key));
  if (bytes.value <= 0) reader.fail(key, "must be greater than 0");
  if (bytes.value > kMaxBytes) reader.fail(key, "is too large");
  return bytes;
}

static double rate_value(JsonReader& reader, const std::string& key, double otherwise) {
  return reader.has(key) ? parse_rate(quantity_text(reader, key, "25GB/s"), reader.where(key)) : otherwise;
}

static Seconds seconds_value(JsonReader& reader, const std::string& key, Seconds otherwise) {
  return reader.has(key) ? parse_seconds(quantity_text(reader, key, "5us"), reader.where(key)) : otherwise;
}

// Throws InputError where a link a pair would be more links than memory.
static void require_few_pairs(std::size_t devices, const std::string& where) {
  constexpr std::size_t most = 4096;
  if (devices > most)
    throw InputError(where, std::to_string(devices) + " devices are too many for a link between every pair",
                     "use at most " + std::to_string(most) + ", or list the links");
}

void list_links(Cluster& cluster) {
  if (!cluster.all_to_all) return;
  for (std::size_t a = 0; a < cluster.devices.size(); ++a)
    for (std::size_t b = a + 1; b < cluster.devices.size(); ++b) {
      Link& link = cluster.links.emplace_back(*cluster.all_to_all);
      link.from = DeviceId(a);
      link.to = DeviceId(b);
    }
  cluster.all_to_all.reset();
}

static Link link_of_all(double bandwidth, Seconds latency) {
  Link link;
  link.bandwidth = bandwidth;
  link.latency = latency;
  return link;
}

template <ClosedChoice E>
static E choice_of(const std::string& name, const std::string& where) {
  if (const std::optional<E> choice = choice_named<E>(name)) return *choice;
  throw InputError(where, "'" + name + "' is unknown", suggestion(name, choice_names<E>()));
}

static Device device_from(JsonReader& d) {
  Device device;
  device.name = d.text("name", device.name);
  if (d.has("flops")) device.flops_16 = 0;  // of another device than the usual one
  device.flops = d.above_zero_or("flops", device.flops, kMaxNumber);
  if (d.has("flops_16")) device.flops_16 = d.above_zero_or("flops_16", 0, kMaxNumber);
  device.memory_bandwidth = rate_value(d, "memory_bandwidth", device.memory_bandwidth);
  device.memory = bytes_value(d, "memory", device.memory);
  device.speed = d.above_zero_or("speed", device.speed, kMaxNumber);
  device.launch = seconds_value(d, "launch", device.launch);
  device.host_bandwidth = rate_value(d, "host_bandwidth", device.host_bandwidth);
  device.host_latency = seconds_value(d, "host_latency", device.host_latency);
  device.kernels = d.text("kernels", "");
  device.kernels_16 = d.text("kernels_16", "");
  return device;
}

// groups: the numbers of the media that were named so far.
static Link link_from(JsonReader& l, std::size_t devices, std::map<std::string, int>& groups) {
  Link link;
  const auto end = [&](const std::string& key) {
    const std::int64_t device = l.integer<std::int64_t>(key, 0, kMaxCount);
    if (device >= static_cast<std::int64_t>(devices))
      l.fail(key, "device " + std::to_string(device) + " does not exist", "there are " + std::to_string(devices));
    return DeviceId(static_cast<std::size_t>(device));
  };
  link.from = end("from");
  link.to = end("to");
  if (link.from == link.to) l.fail("to", "a link must join two devices");
  link.bandwidth = rate_value(l, "bandwidth", kUnlimited);
  link.latency = seconds_value(l, "latency", Seconds{});
  link.duplex = l.boolean("duplex", true);
  const auto medium = [&](const std::string& key) {
    if (!l.has(key)) return -1;
    return groups.try_emplace(l.text(key), static_cast<int>(groups.size())).first->second;
  };
  link.group = medium("group");
  link.to_group = medium("to_group");
  l.no_other_keys();
  return link;
}

// The cluster so far is one node: makes `count` of it, and joins them. groups: how many media a node has.
static void repeat_node(Cluster& cluster, JsonReader& nodes, int groups) {
  cluster.nodes = nodes.integer_or("count", 1, 1, 100'000);
  const double bandwidth = rate_value(nodes, "bandwidth", kUnlimited);
  const Seconds latency = seconds_value(nodes, "latency", Seconds{});
  const std::string cards = nodes.text("cards", "node");
  if (cards != "node" && cards != "device")
    nodes.fail("cards", "'" + cards + "' is unknown", "use node (a network card a node) or device (a card a device)");
  nodes.no_other_keys();
  const auto size = static_cast<int>(cluster.devices.size());
  require_few_pairs(static_cast<std::size_t>(cluster.nodes) * cluster.devices.size(), nodes.where("count"));
  list_links(cluster);
  const std::vector<Link> inside = cluster.links;
  for (int n = 1; n < cluster.nodes; ++n) {
    for (int d = 0; d < size; ++d) cluster.devices.push_back(cluster.devices[static_cast<std::size_t>(d)]);
    for (Link link : inside) {
      link.from = DeviceId(link.from.value + n * size);
      link.to = DeviceId(link.to.value + n * size);
      if (link.group >= 0) link.group += n * groups;
      if (link.to_group >= 0) link.to_group += n * groups;
      cluster.links.push_back(link);
    }
  }
  const auto card_of = [&](int device) { return cluster.nodes * groups + (cards == "node" ? device / size : device); };
  for (int a = 0; a < cluster.nodes * size; ++a)
    for (int b = (a / size + 1) * size; b < cluster.nodes * size; ++b)
      cluster.links.push_back({DeviceId(a), DeviceId(b), bandwidth, latency, true, card_of(a), card_of(b)});
}

constexpr const char* kBucketIsOfTheCase = "is a setting of the case, not of the cluster";
constexpr const char* kWriteGradientBuckets =
    "write --gradient-buckets 25MB, or \"gradient_buckets\": \"25MB\" in a sweep (25MB is the default)";

Cluster cluster_from_json(const Json& json, const std::string& where) {
  JsonReader reader(json, where);
  Cluster cluster;
  cluster.name = reader.text("name");
  cluster.source = reader.text("source", "");
  for (JsonReader& d : reader.objects("devices")) {
    const Device device = device_from(d);
    const int count = d.integer_or("count", 1, 1, kMaxDevices);
    d.no_other_keys();
    if (cluster.devices.size() + static_cast<std::size_t>(count) > kMaxDevices)
      reader.fail("devices", fmt::format("are more than {}", kMaxDevices), "describe fewer");
    cluster.devices.insert(cluster.devices.end(), static_cast<std::size_t>(count), device);
  }
  if (cluster.devices.empty()) reader.fail("devices", "a cluster needs at least one device");
  std::map<std::string, int> groups;
  for (JsonReader& l : reader.objects("links")) cluster.links.push_back(link_from(l, cluster.devices.size(), groups));
  if (reader.has("all_to_all")) {
    JsonReader all = reader.object("all_to_all");
    const double bandwidth = rate_value(all, "bandwidth", kUnlimited);
    const Seconds latency = seconds_value(all, "latency", Seconds{});
    all.no_other_keys();
    if (!cluster.links.empty()) reader.fail("all_to_all", "give links or all_to_all, not both");
    cluster.all_to_all = link_of_all(bandwidth, latency);
  }
  if (reader.has("nodes")) {
    JsonReader nodes = reader.object("nodes");
    repeat_node(cluster, nodes, static_cast<int>(groups.size()));
  }
  if (reader.has("sharing")) cluster.sharing = choice_of<LinkSharing>(reader.text("sharing"), reader.where("sharing"));
  if (reader.has("sends")) cluster.sends = choice_of<Sends>(reader.text("sends"), reader.where("sends"));
  if (reader.has("all_reduce"))
    cluster.all_reduce = choice_of<AllReduce>(reader.text("all_reduce"), reader.where("all_reduce"));
  if (reader.has("pair_share")) cluster.pair_share = reader.number("pair_share", kMinPairShare, kMaxPairShare);
  if (reader.has("pairs")) cluster.pairs = choice_of<Pairs>(reader.text("pairs"), reader.where("pairs"));
  if (reader.has("bucket")) reader.fail("bucket", kBucketIsOfTheCase, kWriteGradientBuckets);
  reader.no_other_keys();
  return cluster;
}

void require_peak(std::span<const Device> devices, const Storage& storage) {
  for (const Device& device : devices)
    if (!(device.peak(storage) > 0))
      throw InputError("device '" + device.name + "'", "states no peak in 16 bit",
                       "give its flops_16 in the cluster's file, or use fp32");
}

static double pair_share_of(const std::string& value, const std::string& where) {
  std::string_view rest = value;
  const std::optional<double> share = take_number(rest);
  if (!share || !rest.empty() || !(*share >= kMinPairShare && *share <= kMaxPairShare))
    throw InputError(where, "pair_share is '" + value + "'",
                     fmt::format("give {:g} to {:g}: what two ops take as a pair, as a part of what they take one "
                                 "after the other",
                                 kMinPairShare, kMaxPairShare));
  return *share;
}

// What a description says of how traffic shares the links, and of pairs of ops. False: the key is another.
static bool change_overlap(Cluster& cluster, const std::string& key, const std::string& value,
                           const std::string& where) {
  if (key == "sharing") {
    cluster.sharing = choice_of<LinkSharing>(value, where);
  } else if (key == "sends") {
    cluster.sends = choice_of<Sends>(value, where);
  } else if (key == "all_reduce") {
    cluster.all_reduce = choice_of<AllReduce>(value, where);
  } else if (key == "pair_share") {
    cluster.pair_share = pair_share_of(value, where);
  } else if (key == "pairs") {
    cluster.pairs = choice_of<Pairs>(value, where);
  } else if (key == "bucket") {
    throw InputError(where, std::string("bucket: ") + kBucketIsOfTheCase, kWriteGradientBuckets);
  } else {
    return false;
  }
  return true;
}

// Within these bounds no time or sum of the virtual clock overflows.
static void check_bounds(Cluster& cluster, const std::string& where) {
  constexpr double least = 1e-9, most = 1e24;  // of a rate: operations, bytes or a factor
  const auto rate = [&](double value, const std::string& what) {
    if (!(value >= least && (value <= most || value == kUnlimited)))
      throw InputError(where, fmt::format("{} of {:g}", what, value), fmt::format("give {:g} to {:g}", least, most));
  };
  const auto seconds = [&](Seconds value, const std::string& what) {
    if (!(value.value >= 0 && value.value <= kMaxOpSeconds))
      throw InputError(where, fmt::format("{} of {:g} seconds", what, value.value),
                       fmt::format("give at most {:g}", kMaxOpSeconds));
  };
  for (const Device& device : cluster.devices) {
    rate(device.flops, "flops");
    rate(device.memory_bandwidth, "memory_bandwidth");
    rate(device.speed, "speed");
    seconds(device.launch, "launch");
    if (device.host_bandwidth != 0) rate(device.host_bandwidth, "host_bandwidth");
    seconds(device.host_latency, "host_latency");
    if (device.memory.value > kMaxTensorBytes)
      throw InputError(where, fmt::format("memory of {} bytes", device.memory.value),
                       fmt::format("give at most {}", kMaxTensorBytes));
  }
  each_link(cluster, [&](const Link& link) {
    rate(link.bandwidth, "bandwidth");
    seconds(link.latency, "latency");
  });
  if (cluster.sends == Sends::blocking && cluster.sharing == LinkSharing::fair)
    throw InputError(where, "has sends that block and links that are shared fairly, which do not go together",
                     "use sharing queue or sends overlapped");
  if (cluster.pair_share && cluster.pairs == Pairs::overlap)
    throw InputError(where, "says by pair_share and by pairs what an overlapped pair takes", "leave one of them out");
  if (cluster.all_reduce == AllReduce::nodes && cluster.nodes == 0)
    throw InputError(where, "does not say which devices are a node, which all_reduce nodes has to know",
                     "use all_reduce ring, or a cluster whose file has nodes");
}

std::string cluster_file(const std::string& description, const std::string& folder) {
  if (description.starts_with("flat:")) return "";
  const std::string name = description.substr(0, description.find(','));
  const bool listed = !name.ends_with(".json") && name.find('/') == std::string::npos;
  return listed ? folder + "/" + name + ".json" : name;
}

static Cluster cluster_of_file(const std::string& name, const std::string& folder) {
  const std::string file = cluster_file(name, folder);
  std::error_code ignored;
  if (file != name && !std::filesystem::exists(file, ignored)) {
    if (std::filesystem::is_directory(name, ignored))
      throw InputError("", "'" + name + "' is a folder", "give a JSON file, or a name of sluice list clusters");
    std::vector<std::string> names = names_of_json_files(folder);
    names.push_back("flat:4");
    throw InputError("", "unknown cluster '" + name + "'", suggestion(name, names));
  }
  // A sweep and advise ask for the same file for every case: it is parsed where it is another, or has been changed.
  static std::mutex mutex;
  static std::string known_file, known_text;
  static Cluster known;
  const std::string text = read_text_file(file);
  const std::lock_guard lock(mutex);
  if (file != known_file || text != known_text) {
    known = cluster_from_json(parse_json_file(file), file);
    known_file = file;
    known_text = text;
  }
  return known;
}

// "8-15:0.25" or "3:0.5": multiplies the speed of these devices.
static void slow_devices(Cluster& cluster, const std::string& value, const std::string& where) {
  const std::size_t colon = std::min(value.find(':'), value.size());
  const std::string devices = value.substr(0, colon);
  const std::size_t dash = devices.find('-');
  const auto first = number_as<std::size_t>(devices.substr(0, dash));
  const auto last = dash == std::string::npos ? first : number_as<std::size_t>(devices.substr(dash + 1));
  const double factor = colon == value.size() ? 0 : number_in(value.substr(colon + 1)).value_or(0);
  if (!first || !last || !(factor > 0))
    throw InputError(where, "'" + value + "' is not devices and their speed", "write speed=8-15:0.25");
  if (*first > *last || *last >= cluster.devices.size())
    throw InputError(where, "devices " + devices + " do not exist",
                     "there are " + std::to_string(cluster.devices.size()));
  for (std::size_t d = *first; d <= *last; ++d) cluster.devices[d].speed *= factor;
}

// is_flat: not of a file; its devices have one speed and one link to their hosts.
static void change_cluster(Cluster& cluster, bool is_flat, const std::string& change, const std::string& where) {
  const std::size_t equals = std::min(change.find('='), change.size());
  const std::string key = change.substr(0, equals);
  const std::string value = equals == change.size() ? "" : change.substr(equals + 1);
  if (key == "bandwidth") {
    const double bandwidth = parse_rate(value, where);
    each_link(cluster, [&](Link& link) { link.bandwidth = bandwidth; });
  } else if (key == "latency") {
    const Seconds latency = parse_seconds(value, where);
    each_link(cluster, [&](Link& link) { link.latency = latency; });
  } else if (key == "memory") {
    const Bytes bytes = parse_bytes(value, where);
    if (bytes.value <= 0) throw InputError(where, "memory must be greater than 0");
    for (Device& device : cluster.devices) device.memory = bytes;
  } else if (key == "speed" && !is_flat) {
    slow_devices(cluster, value, where);
  } else if (key == "speed") {
    const double speed = number_in(value).value_or(0);
    if (!(speed > 0)) throw InputError(where, "speed must be a number greater than 0, is '" + value + "'");
    for (Device& device : cluster.devices) device.speed = speed;
  } else if (key == "host" && is_flat) {
    const double bandwidth = parse_rate(value, where);
    for (Device& device : cluster.devices) device.host_bandwidth = bandwidth;
  } else if (!change_overlap(cluster, key, value, where)) {
    std::vector<std::string> known = {"bandwidth", "latency", "memory",     "speed",      "host",
                                      "sharing",   "sends",   "all_reduce", "pair_share", "pairs"};
    if (!is_flat) std::erase(known, "host");
    throw InputError(where, "unknown key '" + key + "'", suggestion(key, known));
  }
}

static Cluster flat_cluster(const std::string& devices, const std::string& where) {
  const bool digits = !devices.empty() && devices.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t count = whole_number_in(devices).value_or(digits ? kMaxWhole : 0);
  if (count > kMaxDevices)
    throw InputError(where, devices + " devices are too many", "give at most " + std::to_string(kMaxDevices));
  if (count < 1) throw InputError(where, "'" + devices + "' is not a number of devices", "write flat:4");
  constexpr double kPcie = 12e9;  // Gen3 x16 as NCCL plans with it
  Device device;
  device.name = "flat device";  // a V100 SXM2 in fp32 unless told otherwise
  device.kernels = "v100_sxm2_fp32";
  device.kernels_16 = "v100_sxm2_fp16";
  device.host_bandwidth = kPcie;
  Cluster cluster;
  cluster.source = "flat";
  cluster.devices.assign(count, device);
  cluster.all_to_all = link_of_all(kPcie, Seconds(5e-6));
  return cluster;
}

Cluster load_cluster(const std::string& description, const std::string& folder) {
  const std::string where = "cluster '" + description + "'";
  if (description.ends_with(','))
    throw InputError(where, "ends in a comma", "leave it out, or add a key like memory=16GiB");
  const std::vector<std::string> parts = split(description, ",");
  const bool is_flat = description.starts_with("flat:");
  Cluster cluster = is_flat ? flat_cluster(parts[0].substr(5), where) : cluster_of_file(parts[0], folder);
  std::set<std::string> given;
  for (std::size_t k = 1; k < parts.size(); ++k) {
    change_cluster(cluster, is_flat, parts[k], where);
    const std::string key = parts[k].substr(0, parts[k].find('='));
    const bool of_devices = key == "speed" && !is_flat;  // those that it names
    if (!given.insert(key).second && !of_devices)
      throw InputError(where, "'" + key + "' is given twice", "give each key once");
  }
  if (is_flat || parts.size() > 1) cluster.name = description;
  check_bounds(cluster, where);
  return cluster;
}

}  // namespace sluice
