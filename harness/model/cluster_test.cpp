#include "harness/model/cluster.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <limits>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/source_folder.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
const std::string kFolder = SLUICE_SOURCE_DIR "/workloads/clusters";

Cluster from_text(const std::string& text) { return cluster_from_json(Json::parse(text), "c.json"); }
std::string rejection(const std::string& text) {
  return error_of([&] { from_text(text); });
}
std::string flat_rejection(const std::string& text) {
  return error_of([&] { load_cluster(text, kFolder); });
}

TEST(ClusterJsonTest, ReadsDevicesLinksAndGroups) {
  const Cluster c = from_text(R"({"name": "n", "source": "s",
    "devices": [{"name": "fast", "count": 2, "flops": 15e12, "memory_bandwidth": "900GB/s",
                 "memory": "16GiB", "speed": 2, "launch": "3us",
                 "host_bandwidth": "12GB/s", "host_latency": "1us"}, {}],
    "links": [{"from": 0, "to": 1, "bandwidth": "12GB/s", "latency": "5us", "group": "a"},
              {"from": 1, "to": 2, "bandwidth": "1GB/s", "duplex": false, "group": "b", "to_group": "a"}]})");
  ASSERT_EQ(c.devices.size(), 3u);
  EXPECT_EQ(c.devices[1].name, "fast");
  EXPECT_EQ(c.devices[1].memory, GiB(16));
  EXPECT_EQ(c.devices[1].memory_bandwidth, 900e9);
  EXPECT_EQ(c.devices[1].speed, 2);
  EXPECT_DOUBLE_EQ(c.devices[1].launch.value, 3e-6);
  EXPECT_DOUBLE_EQ(c.devices[1].host_bandwidth, 12e9);
  EXPECT_DOUBLE_EQ(c.devices[1].host_latency.value, 1e-6);
  EXPECT_EQ(c.devices[2].name, "device");
  ASSERT_EQ(c.links.size(), 2u);
  EXPECT_EQ(c.links[0].bandwidth, 12e9);
  EXPECT_DOUBLE_EQ(c.links[0].latency.value, 5e-6);
  EXPECT_TRUE(c.links[0].duplex);
  EXPECT_FALSE(c.links[1].duplex);
  EXPECT_EQ(c.links[1].to, DeviceId(2));
  EXPECT_EQ(c.links[0].group, 0);
  EXPECT_EQ(c.links[0].to_group, -1);
  EXPECT_EQ(c.links[1].group, 1);
  EXPECT_EQ(c.links[1].to_group, 0);
}

TEST(ClusterJsonTest, AllToAllLinksEveryPair) {
  const Cluster c =
      from_text(R"({"name": "n", "devices": [{"count": 4}], "all_to_all": {"bandwidth": "1GB/s", "latency": "1us"}})");
  const std::vector<Hop> hops = path(c, DeviceId(3), DeviceId(1));
  ASSERT_EQ(hops.size(), 1u);
  EXPECT_TRUE(hops[0].reversed);
  EXPECT_EQ(hops[0].link.from, DeviceId(1));
  EXPECT_EQ(hops[0].link.to, DeviceId(3));
  EXPECT_EQ(hops[0].link.bandwidth, 1e9);
  EXPECT_TRUE(path(c, DeviceId(2), DeviceId(2)).empty());
  std::set<std::size_t> numbers;  // a link a pair, the same in both directions
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      for (const Hop& hop : path(c, DeviceId(a), DeviceId(b))) numbers.insert(hop.number);
  EXPECT_EQ(numbers.size(), 6u);
}

TEST(ClusterJsonTest, LinksOfAllPairsCanBeListed) {
  Cluster c = from_text(R"({"name": "n", "devices": [{"count": 4}], "all_to_all": {"bandwidth": "1GB/s"}})");
  EXPECT_TRUE(c.links.empty());
  list_links(c);
  EXPECT_FALSE(c.all_to_all);
  ASSERT_EQ(c.links.size(), 6u);
  EXPECT_EQ(c.links[5].from, DeviceId(2));
  EXPECT_EQ(c.links[5].to, DeviceId(3));
  EXPECT_EQ(c.links[5].bandwidth, 1e9);
  list_links(c);
  EXPECT_EQ(c.links.size(), 6u);
}

TEST(ClusterJsonTest, NodesMayLinkAllTheirDevices) {
  const Cluster c = from_text(R"({"name": "n", "devices": [{"count": 3}], "all_to_all": {"bandwidth": "9GB/s"},
                                  "nodes": {"count": 2, "bandwidth": "1GB/s"}})");
  EXPECT_EQ(c.links.size(), 3u + 3u + 9u);
  EXPECT_EQ(path(c, DeviceId(3), DeviceId(5)).front().link.bandwidth, 9e9);
  EXPECT_EQ(path(c, DeviceId(2), DeviceId(3)).front().link.bandwidth, 1e9);
}

// Two devices with a bus a node; the media by hand: buses 0 and 1, cards 2 and 3.
const std::string kNode = R"({"name": "n", "devices": [{"name": "a"}, {"name": "b"}],
                             "links": [{"from": 1, "to": 0, "bandwidth": "9GB/s", "group": "bus"}], "nodes": )";

TEST(ClusterNodesTest, RepeatTheNodeAndJoinAllPairsOfTwoNodesThroughTheirCards) {
  const Cluster c = from_text(kNode + R"({"count": 2, "bandwidth": "1GB/s", "latency": "5us"}})");
  EXPECT_EQ(c.nodes, 2);
  ASSERT_EQ(c.devices.size(), 4u);
  EXPECT_EQ(c.devices[2].name, "a");
  EXPECT_EQ(c.devices[3].name, "b");
  ASSERT_EQ(c.links.size(), 6u);
  EXPECT_EQ(c.links[0].group, 0);
  EXPECT_EQ(c.links[1].from, DeviceId(3));
  EXPECT_EQ(c.links[1].to, DeviceId(2));
  EXPECT_EQ(c.links[1].bandwidth, 9e9);
  EXPECT_EQ(c.links[1].group, 1);
  EXPECT_EQ(c.links[1].to_group, -1);
  const std::pair<int, int> across[] = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Link& link = c.links[2 + i];
    EXPECT_EQ(link.from, DeviceId(across[i].first));
    EXPECT_EQ(link.to, DeviceId(across[i].second));
    EXPECT_EQ(link.bandwidth, 1e9);
    EXPECT_DOUBLE_EQ(link.latency.value, 5e-6);
    EXPECT_EQ(link.group, 2);
    EXPECT_EQ(link.to_group, 3);
  }
}

TEST(ClusterNodesTest, CardsMayBeTheDevices) {
  const Cluster c = from_text(kNode + R"({"count": 2, "bandwidth": "1GB/s", "cards": "device"}})");
  EXPECT_EQ(c.links[3].from, DeviceId(0));
  EXPECT_EQ(c.links[3].group, 2);     // the card of device 0
  EXPECT_EQ(c.links[3].to_group, 5);  // and of device 3
}

TEST(ClusterNodesTest, TrafficSharesTheLinksAsTheDescriptionSays) {
  const Cluster c = load_cluster("summit_v100,sharing=fair,all_reduce=nodes", kFolder);
  EXPECT_EQ(c.sharing, LinkSharing::fair);
  EXPECT_EQ(c.all_reduce, AllReduce::nodes);
  const Cluster written = from_text(kNode + R"({"count": 2}, "sharing": "fair", "all_reduce": "ring"})");
  EXPECT_EQ(written.sharing, LinkSharing::fair);
  EXPECT_EQ(written.all_reduce, AllReduce::ring);
  EXPECT_EQ(flat_rejection("flat:4,all_reduce=nodes"),
            "cluster 'flat:4,all_reduce=nodes': does not say which devices are a node, which all_reduce nodes has to "
            "know; use all_reduce ring, or a cluster whose file has nodes");
  EXPECT_EQ(load_cluster("flat:4,sends=blocking", kFolder).sends, Sends::blocking);
  EXPECT_EQ(from_text(kNode + R"({"count": 2}, "sends": "blocking"})").sends, Sends::blocking);
  EXPECT_EQ(
      flat_rejection("flat:4,sends=blocking,sharing=fair"),
      "cluster 'flat:4,sends=blocking,sharing=fair': has sends that block and links that are shared fairly, which "
      "do not go together; use sharing queue or sends overlapped");
  EXPECT_EQ(flat_rejection("flat:4,sharing=fairly"),
            "cluster 'flat:4,sharing=fairly': 'fairly' is unknown; did you mean 'fair'?");
}

TEST(ClusterTest, SaysWhatPairsTake) {
  EXPECT_FALSE(load_cluster("flat:4", kFolder).pair_share);
  EXPECT_EQ(load_cluster("flat:4,pair_share=0.75", kFolder).pair_share, 0.75);
  EXPECT_EQ(load_cluster("dgx_h100,pair_share=1.25", kFolder).pair_share, 1.25);
  EXPECT_EQ(from_text(kNode + R"({"count": 2}, "pair_share": 0.9})").pair_share, 0.9);
  EXPECT_NE(error_of([] { from_text(kNode + R"({"count": 2}, "pair_share": 0.3})"); }).find("/pair_share"),
            std::string::npos);
  for (const std::string wrong : {"", "0.3", "11", "a", "0.9x"})
    EXPECT_EQ(flat_rejection("flat:4,pair_share=" + wrong),
              "cluster 'flat:4,pair_share=" + wrong + "': pair_share is '" + wrong +
                  "'; give 0.5 to 10: what two ops take as a pair, as a part of what they take one after the other");
  EXPECT_EQ(load_cluster("flat:4", kFolder).pairs, Pairs::apart);
  EXPECT_EQ(load_cluster("flat:4,pairs=overlap", kFolder).pairs, Pairs::overlap);
  EXPECT_EQ(from_text(kNode + R"({"count": 2}, "pairs": "overlap"})").pairs, Pairs::overlap);
  EXPECT_EQ(flat_rejection("flat:4,pairs=overlaps"),
            "cluster 'flat:4,pairs=overlaps': 'overlaps' is unknown; did you mean 'overlap'?");
  EXPECT_EQ(flat_rejection("flat:4,pairs=overlap,pair_share=0.9"),
            "cluster 'flat:4,pairs=overlap,pair_share=0.9': says by pair_share and by pairs what an overlapped pair "
            "takes; leave one of them out");
}

TEST(ClusterTest, BucketsOfGradientsAreNoKeyOfAClusterAndTheErrorSaysWhereTheyBelong) {
  const std::string instead =
      "is a setting of the case, not of the cluster; write --gradient-buckets 25MB, or \"gradient_buckets\": \"25MB\" "
      "in a sweep (25MB is the default)";
  EXPECT_EQ(flat_rejection("flat:4,bucket=25MB"), "cluster 'flat:4,bucket=25MB': bucket: " + instead);
  EXPECT_EQ(rejection(kNode + R"({"count": 2}, "bucket": "25MB"})"), "c.json: /bucket: " + instead);
}

TEST(ClusterNodesTest, ErrorsNameThePlace) {
  EXPECT_EQ(rejection(kNode + R"({"count": 0}})"), "c.json: /nodes/count: is 0; must be at least 1");
  EXPECT_EQ(rejection(kNode + R"({"count": 9, "cards": "rack"}})"),
            "c.json: /nodes/cards: 'rack' is unknown; use node (a network card a node) or device (a card a device)");
  EXPECT_EQ(rejection(kNode + R"({"count": 4000}})"),
            "c.json: /nodes/count: 8000 devices are too many for a link between every pair; use at most 4096, or list "
            "the links");
  EXPECT_EQ(rejection(kNode + R"({"count": 2, "bandwidth": "0B/s"}})"),
            "c.json: /nodes/bandwidth: '0B/s' is not a rate greater than 0; write it like 100Mbit/s");
}

TEST(ClusterJsonTest, APeakIn16BitIsAsStatedOrTheUsualDevices) {
  const auto peak = [](const std::string& device) {
    return from_text(R"({"name": "n", "devices": [{)" + device + "}]}").devices[0].flops_16;
  };
  EXPECT_EQ(peak(""), 125e12);                // a V100, as everything else
  EXPECT_EQ(peak(R"("flops": 15.7e12)"), 0);  // of some other device: not known
  EXPECT_EQ(peak(R"("flops_16": 1e12)"), 1e12);
  EXPECT_EQ(peak(R"("flops": 2e12, "flops_16": 8e12)"), 8e12);
}

TEST(ClusterJsonTest, ErrorsNameThePlace) {
  EXPECT_EQ(rejection(R"({"devices": [{}]})"), "c.json: /name: is missing");
  EXPECT_EQ(rejection(R"({"name": "n"})"), "c.json: /devices: a cluster needs at least one device");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"count": 0}]})"),
            "c.json: /devices/0/count: is 0; must be at least 1");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"count": 60000}, {"count": 60000}]})"),
            "c.json: /devices: are more than 100000; describe fewer");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"memry": 1}]})"),
            "c.json: /devices/0/memry: unknown key 'memry'; did you mean 'memory'?");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"memory": "16 gibi"}]})"),
            "c.json: /devices/0/memory: unknown unit in '16 gibi'; use B, kB, MB, GB, TB, KiB, "
            "MiB, GiB or TiB");
  for (const char* key : {"flops", "flops_16", "speed"})
    EXPECT_EQ(rejection(R"({"name": "n", "devices": [{")" + std::string(key) + R"(": 0}]})"),
              "c.json: /devices/0/" + std::string(key) + ": must be greater than 0");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"memory": "0B"}]})"),
            "c.json: /devices/0/memory: must be greater than 0");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"launch": "-1us"}]})"),
            "c.json: /devices/0/launch: '-1us' must be finite and not negative; write it like 5us");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{}], "link": []})"),
            "c.json: /link: unknown key 'link'; did you mean 'links'?");
}

TEST(ClusterJsonTest, AQuantityWithoutItsUnitIsAnError) {
  const auto device = [](const std::string& text) {
    return rejection(R"({"name": "n", "devices": [{)" + text + "}]}");
  };
  EXPECT_EQ(device(R"("memory": 40)"), R"(c.json: /devices/0/memory: 40 has no unit; write it like "16GiB")");
  EXPECT_EQ(device(R"("memory_bandwidth": 9e11)"),
            R"(c.json: /devices/0/memory_bandwidth: 900000000000.0 has no unit; write it like "25GB/s")");
  EXPECT_EQ(device(R"("host_bandwidth": 0)"),
            R"(c.json: /devices/0/host_bandwidth: 0 has no unit; write it like "25GB/s")");
  EXPECT_EQ(device(R"("launch": 5)"), R"(c.json: /devices/0/launch: 5 has no unit; write it like "5us")");
  EXPECT_EQ(device(R"("memory": "16GiB/s")"),
            "c.json: /devices/0/memory: unknown unit in '16GiB/s'; use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB");
  EXPECT_EQ(device(R"("memory": "16Gb")"),
            "c.json: /devices/0/memory: '16Gb' may be bits or bytes; write GB or Gbit/s");
}

TEST(ClusterJsonTest, LinkErrorsNameTheLink) {
  const auto link = [](const std::string& text) {
    return rejection(R"({"name": "n", "devices": [{"count": 2}], "links": [{)" + text + "}]}");
  };
  EXPECT_EQ(link(R"("from": 0, "to": 2)"), "c.json: /links/0/to: device 2 does not exist; there are 2");
  EXPECT_EQ(link(R"("from": -1, "to": 1)"), "c.json: /links/0/from: is -1; must be at least 0");
  EXPECT_EQ(link(R"("from": 1, "to": 1)"), "c.json: /links/0/to: a link must join two devices");
  EXPECT_EQ(link(R"("from": 0, "to": 1, "bandwidth": 10)"),
            R"(c.json: /links/0/bandwidth: 10 has no unit; write it like "25GB/s")");
  EXPECT_EQ(link(R"("from": 0, "to": 1, "latency": "-1us")"),
            "c.json: /links/0/latency: '-1us' must be finite and not negative; write it like 5us");
  EXPECT_EQ(link(R"("from": 0, "to": 1, "group": 3)"), "c.json: /links/0/group: must be a text, is number");
  EXPECT_EQ(link(R"("from": 0, "to": 1, "dup": true)"),
            "c.json: /links/0/dup: unknown key 'dup'; did you mean 'duplex'?");
  EXPECT_EQ(rejection(R"({"name": "n", "devices": [{"count": 2}], "links": [{"from": 0, "to": 1}],
                       "all_to_all": {}})"),
            "c.json: /all_to_all: give links or all_to_all, not both");
}

TEST(FlatClusterTest, LinksEveryPair) {
  const Cluster c = load_cluster("flat:3,bandwidth=25GiB/s,latency=7us,memory=8GiB,speed=0.5", kFolder);
  EXPECT_EQ(c.devices.size(), 3u);
  EXPECT_EQ(c.devices[2].memory, GiB(8));
  EXPECT_EQ(c.devices[2].speed, 0.5);
  const Link link = path(c, DeviceId(0), DeviceId(2)).at(0).link;
  EXPECT_EQ(link.bandwidth, 25.0 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(link.latency.value, 7e-6);
  const Cluster most = load_cluster("flat:100000,bandwidth=inf", kFolder);  // no list of their 5 billion pairs
  EXPECT_EQ(path(most, DeviceId(0), DeviceId(99'999)).at(0).link.bandwidth, kUnlimited);
}

TEST(FlatClusterTest, ErrorsNameTheField) {
  EXPECT_EQ(flat_rejection("flat:0"), "cluster 'flat:0': '0' is not a number of devices; write flat:4");
  for (const char* count : {"", "x", "4.5", "-2"})
    EXPECT_NE(flat_rejection("flat:" + std::string(count)).find("is not a number of devices"), std::string::npos);
  for (const std::string count : {"100001", "99999999999999999999"})
    EXPECT_EQ(flat_rejection("flat:" + count),
              "cluster 'flat:" + count + "': " + count + " devices are too many; give at most 100000");
  EXPECT_EQ(flat_rejection("flat:2,bandwith=1GB/s"),
            "cluster 'flat:2,bandwith=1GB/s': unknown key 'bandwith'; did you mean 'bandwidth'?");
  EXPECT_NE(flat_rejection("flat:2,latency=5parsec").find("unknown unit in '5parsec'"), std::string::npos);
  EXPECT_NE(flat_rejection("flat:2,bandwidth=0").find("'0' is not a rate greater than 0"), std::string::npos);
  for (const char* speed : {"0", "-1", "fast", "2ms", "inf", ""})
    EXPECT_NE(flat_rejection("flat:2,speed=" + std::string(speed)).find("speed must be a number"), std::string::npos)
        << speed;
  EXPECT_NE(flat_rejection("flat:2,memory=0").find("memory must be greater than 0"), std::string::npos);
}

TEST(LoadClusterTest, ADescriptionThatEndsInACommaIsAnError) {
  for (const std::string description : {"flat:4,", "flat:4,memory=1GiB,", "dgx1_v100,"})
    EXPECT_EQ(flat_rejection(description),
              "cluster '" + description + "': ends in a comma; leave it out, or add a key like memory=16GiB");
}

TEST(LoadClusterTest, AKeyThatIsGivenTwiceIsAnError) {
  for (const char* cluster : {"flat:4,speed=2,speed=3", "flat:4,memory=1GiB,latency=1us,memory=1GiB",
                              "dgx1_v100,bandwidth=1GB/s,bandwidth=2GB/s"})
    EXPECT_NE(flat_rejection(cluster).find("is given twice; give each key once"), std::string::npos) << cluster;
}

TEST(LoadClusterTest, RatesAreInBytesOrBitsPerSecondAndBytesAreNoRates) {
  for (const std::string cluster : {"flat:4", "dgx1_v100"}) {
    EXPECT_EQ(
        path(load_cluster(cluster + ",bandwidth=10Gbit/s", kFolder), DeviceId(0), DeviceId(1)).at(0).link.bandwidth,
        1.25e9);
    for (const std::string wrong :
         {",bandwidth=10GB", ",bandwidth=10Gb/s", ",memory=16GiB/s", ",memory=16Gb", ",memory=40"})
      EXPECT_TRUE(flat_rejection(cluster + wrong).starts_with("cluster '" + cluster + wrong + "': ")) << wrong;
  }
  EXPECT_EQ(load_cluster("flat:4,host=80Gbit/s", kFolder).devices[0].host_bandwidth, 1e10);
  EXPECT_NE(flat_rejection("flat:4,host=12GB").find("unknown unit in '12GB'"), std::string::npos);
}

TEST(LoadClusterTest, ANamedClusterTakesAnotherMemory) {
  const Cluster usual = load_cluster("dgx1_v100", kFolder), more = load_cluster("dgx1_v100,memory=80GiB", kFolder);
  ASSERT_EQ(more.devices.size(), usual.devices.size());
  for (const Device& device : more.devices) EXPECT_EQ(device.memory, GiB(80));
  EXPECT_EQ(more.devices.front().flops, usual.devices.front().flops);
  EXPECT_EQ(flat_rejection("dgx1_v100,memory=80"),
            "cluster 'dgx1_v100,memory=80': '80' has no unit; write it like 16GiB");
  EXPECT_NE(flat_rejection("dgx1_v100,speed=2").find("write speed=8-15:0.25"), std::string::npos);
}

TEST(LoadClusterTest, UnknownNamesAreRejectedWithTheNearest) {
  EXPECT_EQ(flat_rejection("dgx1_v10"), "unknown cluster 'dgx1_v10'; did you mean 'dgx1_v100'?");
  EXPECT_NE(flat_rejection("no/such/file.json").find("no such file"), std::string::npos);
}

TEST(LoadClusterTest, AListedClusterMayHaveOtherLinksAndSlowerDevices) {
  const Cluster usual = load_cluster("heterogeneous_edge", kFolder);
  const Cluster c =
      load_cluster("heterogeneous_edge,bandwidth=2.5MB/s,latency=1ms,speed=8-15:0.25,speed=0:0.5", kFolder);
  EXPECT_EQ(c.name, "heterogeneous_edge,bandwidth=2.5MB/s,latency=1ms,speed=8-15:0.25,speed=0:0.5");
  for (const Link& l : c.links) {
    EXPECT_EQ(l.bandwidth, 2.5e6);
    EXPECT_EQ(l.latency, Seconds(1e-3));
    EXPECT_GE(l.group, 0);  // cards are shared as before
  }
  EXPECT_EQ(c.devices[0].speed, 0.5);
  EXPECT_EQ(c.devices[1].speed, 1);
  EXPECT_EQ(c.devices[15].speed, usual.devices[15].speed / 4);
}

TEST(LoadClusterTest, ChangesOfAListedClusterAreReadWithCare) {
  EXPECT_NE(flat_rejection("dgx1_v100,speed=0-9:2").find("devices 0-9 do not exist; there are 8"), std::string::npos);
  for (const char* speed : {"", "2", "1-:2", "0:0", "0:x", "0-1:inf", "-1:2"})
    EXPECT_NE(flat_rejection("dgx1_v100,speed=" + std::string(speed)).find("is not devices and their speed"),
              std::string::npos)
        << speed;
  EXPECT_NE(flat_rejection("dgx1_v100,bandwith=1GB/s").find("did you mean 'bandwidth'?"), std::string::npos);
  EXPECT_NE(flat_rejection("dgx1_v100,,sharing=fair").find("unknown key ''"), std::string::npos);
}

TEST(ListedClustersTest, EveryOneLoadsSaysItsSourceAndConnectsAllDevices) {
  const auto names = names_of_json_files(kFolder);
  EXPECT_GE(names.size(), 6u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Cluster c = load_cluster(name, kFolder);
    EXPECT_EQ(c.name, name);
    EXPECT_FALSE(c.source.empty());
    Paths paths(c);
    for (std::size_t a = 0; a < c.devices.size(); ++a)
      for (std::size_t b = 0; b < c.devices.size(); ++b)
        EXPECT_EQ(paths.between(DeviceId(a), DeviceId(b)).empty(), a == b);
  }
}

Link link(int from, int to, double bandwidth, double latency = 0) {
  return {DeviceId(from), DeviceId(to), bandwidth, Seconds(latency), true, -1};
}

Cluster cluster_of(int devices, std::vector<Link> links) {
  return {.name = "test",
          .source = "",
          .devices = std::vector<Device>(static_cast<std::size_t>(devices)),
          .links = std::move(links)};
}

TEST(PathTest, TakesTheDirectLinkWhereItIsFastest) {
  const Cluster c = cluster_of(3, {link(0, 1, 1e9), link(1, 2, 1e9), link(2, 0, 1e9)});
  const auto hops = path(c, DeviceId(0), DeviceId(2));
  ASSERT_EQ(hops.size(), 1u);
  EXPECT_EQ(hops[0].number, 2u);
  EXPECT_TRUE(hops[0].reversed);
}

TEST(PathTest, GoesRoundASlowLink) {
  const Cluster c = cluster_of(3, {link(0, 2, 1e6), link(0, 1, 1e9), link(2, 1, 1e9)});
  const auto hops = path(c, DeviceId(0), DeviceId(2));
  ASSERT_EQ(hops.size(), 2u);
  EXPECT_EQ(hops[0].number, 1u);
  EXPECT_FALSE(hops[0].reversed);
  EXPECT_EQ(hops[1].number, 2u);
  EXPECT_TRUE(hops[1].reversed);
}

TEST(PathTest, TakesTheFasterOfTwoParallelLinks) {
  const Cluster c = cluster_of(2, {link(0, 1, 1e9), link(0, 1, 5e9), link(0, 1, 2e9)});
  EXPECT_EQ(path(c, DeviceId(0), DeviceId(1))[0].number, 1u);
}

TEST(PathTest, IsEmptyToItselfAndRejectedWhereThereIsNone) {
  const Cluster c = cluster_of(4, {link(0, 1, 1e9), link(2, 3, 1e9)});
  EXPECT_TRUE(path(c, DeviceId(1), DeviceId(1)).empty());
  EXPECT_EQ(error_of([&] { path(c, DeviceId(0), DeviceId(3)); }),
            "cluster 'test': no path between devices 0 and 3; add a link that connects them");
}

RC_GTEST_PROP(PathTest, IsAsShortAsFloydAndWarshallSay, ()) {
  const int n = *rc::gen::inRange(2, 7);
  std::vector<Link> links;
  for (int k = *rc::gen::inRange(1, 14); k-- > 0;) {
    const int a = *rc::gen::inRange(0, n), b = *rc::gen::inRange(0, n);
    if (a != b) links.push_back(link(a, b, kUnlimited, *rc::gen::inRange(1, 20)));
  }
  const Cluster c = cluster_of(n, links);
  const auto at = [&](int a, int b) { return static_cast<std::size_t>(a * n + b); };
  std::vector<double> best(static_cast<std::size_t>(n) * n, kUnlimited);
  for (int a = 0; a < n; ++a) best[at(a, a)] = 0;
  for (const Link& l : links)
    for (const auto& [a, b] : {std::pair(l.from.value, l.to.value), std::pair(l.to.value, l.from.value)})
      best[at(a, b)] = std::min(best[at(a, b)], l.latency.value);
  for (int k = 0; k < n; ++k)
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b) best[at(a, b)] = std::min(best[at(a, b)], best[at(a, k)] + best[at(k, b)]);
  Paths paths(c);  // one object for all pairs: searches must not leave anything behind
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b) {
      if (best[at(a, b)] == kUnlimited) {
        RC_ASSERT_THROWS_AS(paths.between(DeviceId(a), DeviceId(b)), InputError);
        continue;
      }
      double length = 0;
      DeviceId where(a);
      for (const Hop& hop : paths.between(DeviceId(a), DeviceId(b))) {
        const Link& l = hop.link;
        RC_ASSERT((hop.reversed ? l.to : l.from) == where);
        where = hop.reversed ? l.from : l.to;
        length += l.latency.value;
      }
      RC_ASSERT(where == DeviceId(b));
      RC_ASSERT(length == best[at(a, b)]);
    }
}

}  // namespace
}  // namespace sluice
