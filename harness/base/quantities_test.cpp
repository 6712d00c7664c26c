#include "harness/base/quantities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

TEST(UnitsTest, BytesPrintWithThreeDigitsInBinaryUnits) {
  EXPECT_EQ(to_text(Bytes(0)), "0 B");
  EXPECT_EQ(to_text(Bytes(1023)), "1023 B");
  EXPECT_EQ(to_text(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(to_text(KiB(1010)), "1010 KiB");
  EXPECT_EQ(to_text(GiB(16)), "16 GiB");
  EXPECT_EQ(to_text(GiB(5) * 1024 * 1024), "5120 TiB");
  EXPECT_EQ(to_text(Bytes(-2048)), "-2 KiB");
}

TEST(UnitsTest, SecondsPrintInTheUnitThatFits) {
  EXPECT_EQ(to_text(Seconds(0)), "0 s");
  EXPECT_EQ(to_text(Seconds(12.34e-6)), "12.3 us");
  EXPECT_EQ(to_text(Seconds(0.0123)), "12.3 ms");
  EXPECT_EQ(to_text(Seconds(0.99999)), "1000 ms");
  EXPECT_EQ(to_text(Seconds(1.5)), "1.5 s");
  EXPECT_EQ(to_text(Seconds(150)), "2 min 30 s");
  EXPECT_EQ(to_text(Seconds(179.7)), "3 min 0 s");
  EXPECT_EQ(to_text(Seconds(-150)), "-2 min 30 s");
}

TEST(UnitsTest, BytesAreReadInEveryUnit) {
  EXPECT_EQ(parse_bytes("512 B", "x"), Bytes(512));
  EXPECT_EQ(parse_bytes("16GiB", "x"), GiB(16));
  EXPECT_EQ(parse_bytes("25 GiB", "x"), GiB(25));
  EXPECT_EQ(parse_bytes("3KiB", "x"), KiB(3));
  EXPECT_EQ(parse_bytes("2MiB", "x"), MiB(2));
  EXPECT_EQ(parse_bytes("1TiB", "x"), GiB(1024));
  EXPECT_EQ(parse_bytes("7kB", "x"), Bytes(7'000));
  EXPECT_EQ(parse_bytes("1.5MB", "x"), Bytes(1'500'000));
  EXPECT_EQ(parse_bytes("900GB", "x"), Bytes(900'000'000'000));
  EXPECT_EQ(parse_bytes("2TB", "x"), Bytes(2'000'000'000'000));
}

TEST(UnitsTest, BadBytesAreRejectedWithTheirPlace) {
  EXPECT_EQ(error_of([] { parse_bytes("many", "c.json: /memory"); }),
            "c.json: /memory: 'many' is not a quantity; write it like 16GiB");
  EXPECT_EQ(error_of([] { parse_bytes("16 gibi", "x"); }),
            "x: unknown unit in '16 gibi'; use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB");
  EXPECT_EQ(error_of([] { parse_bytes("16GiB/s", "x"); }),
            "x: unknown unit in '16GiB/s'; use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB");
  EXPECT_EQ(error_of([] { parse_bytes("16Gb", "x"); }), "x: '16Gb' may be bits or bytes; write GB or Gbit/s");
  for (const char* text : {"16KB", "16Gbit/s", "0x10B", "+1B", " 1B", "1e999B", "nanB", ""})
    EXPECT_NE(error_of([&] { parse_bytes(text, "x"); }), "no error") << text;
  EXPECT_EQ(error_of([] { parse_bytes("-1GiB", "x"); }),
            "x: '-1GiB' must be finite and not negative; write it like 16GiB");
  EXPECT_EQ(error_of([] { parse_bytes("1e30B", "x"); }), "x: '1e30B' is too large");
  EXPECT_EQ(error_of([] { parse_bytes("24", "x"); }), "x: '24' has no unit; write it like 16GiB");
  EXPECT_EQ(parse_bytes("0", "x"), Bytes(0));
  EXPECT_NE(error_of([] { parse_bytes("inf", "x"); }), "no error");
}

TEST(UnitsTest, RatesAreReadInBytesAndBitsPerSecond) {
  EXPECT_EQ(parse_rate("25 GiB/s", "x"), 25.0 * (1 << 30));
  EXPECT_EQ(parse_rate("118.7MB/s", "x"), 118'700'000);
  EXPECT_EQ(parse_rate("9kB/s", "x"), 9'000);
  EXPECT_EQ(parse_rate("10Gbit/s", "x"), 1'250'000'000);
  EXPECT_EQ(parse_rate("100Mbit/s", "x"), 12'500'000);
  EXPECT_EQ(parse_rate("8kbit/s", "x"), 1'000);
  EXPECT_EQ(parse_rate("12bit/s", "x"), 1.5);
  EXPECT_EQ(parse_rate("inf", "x"), HUGE_VAL);
}

TEST(UnitsTest, BadRatesAreRejectedWithTheirPlace) {
  EXPECT_EQ(error_of([] { parse_rate("10GB", "--throttle"); }),
            "--throttle: unknown unit in '10GB'; a rate is in B/s, kB/s, MB/s, GB/s, GiB/s, kbit/s, Mbit/s or Gbit/s");
  EXPECT_EQ(error_of([] { parse_rate("10Gb/s", "x"); }), "x: '10Gb/s' may be bits or bytes; write GB or Gbit/s");
  EXPECT_EQ(error_of([] { parse_rate("10Mb", "x"); }), "x: '10Mb' may be bits or bytes; write GB or Gbit/s");
  EXPECT_EQ(error_of([] { parse_rate("10", "x"); }), "x: '10' has no unit; write it like 1.5GB/s or 100Mbit/s");
  EXPECT_EQ(error_of([] { parse_rate("0GB/s", "x"); }),
            "x: '0GB/s' is not a rate greater than 0; write it like 100Mbit/s");
  EXPECT_EQ(error_of([] { parse_rate("0", "x"); }), "x: '0' is not a rate greater than 0; write it like 100Mbit/s");
  EXPECT_EQ(error_of([] { parse_rate("1e30B/s", "x"); }), "x: '1e30B/s' is too large");
}

TEST(UnitsTest, SecondsAreReadInEveryUnit) {
  EXPECT_DOUBLE_EQ(parse_seconds("5us", "x").value, 5e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5 ms", "x").value, 1.5e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("2s", "x").value, 2);
  EXPECT_DOUBLE_EQ(parse_seconds("0.25s", "x").value, 0.25);
  EXPECT_DOUBLE_EQ(parse_seconds("0", "x").value, 0);
  EXPECT_EQ(error_of([] { parse_seconds("5", "x"); }), "x: '5' has no unit; write it like 5us");
  EXPECT_DOUBLE_EQ(parse_seconds("936.25ns", "x").value, 936.25e-9);
  EXPECT_EQ(error_of([] { parse_seconds("5min", "x"); }), "x: unknown unit in '5min'; use s, ms, us or ns");
  EXPECT_NE(error_of([] { parse_seconds("", "x"); }), "no error");
  EXPECT_NE(error_of([] { parse_seconds("-5us", "x"); }), "no error");
}

TEST(UnitsTest, QuantitiesOfOneUnitAddAndScale) {
  Bytes b = KiB(1) + Bytes(1);
  b -= Bytes(1);
  EXPECT_EQ(3 * b, KiB(3));
  EXPECT_LT(Seconds(1), Seconds(2));
  EXPECT_EQ(MiB(1) / 1024, KiB(1));
}

TEST(Quantities, SumsAndProductsThatDoNotFitAreRejected) {
  const Bytes most(INT64_MAX);
  EXPECT_EQ((Bytes(INT64_MAX - 1) + Bytes(1)).value, INT64_MAX);
  EXPECT_THROW(most + Bytes(1), InputError);
  EXPECT_THROW(Bytes(INT64_MIN) - Bytes(1), InputError);
  EXPECT_THROW(Bytes(std::int64_t{1} << 40) * (std::int64_t{1} << 30), InputError);
  Bytes sum = most;
  EXPECT_THROW(sum += Bytes(1), InputError);
  EXPECT_EQ(exact_product<std::int64_t>(-4, 1LL << 61), INT64_MIN);
  EXPECT_THROW(exact_product<std::int64_t>(4, 1LL << 61), InputError);
  EXPECT_EQ((Seconds(1e308) * 10.0).value, HUGE_VAL);  // floating point says so itself
}

TEST(Quantities, CountsAreCutToNoOtherNumber) {
  EXPECT_EQ(int_of(1'000'000'000, "x"), 1'000'000'000);
  EXPECT_EQ(error_of([] { int_of(1LL << 32, "--ranks"); }),
            "--ranks: 4294967296 is out of range; give 0 to 1000000000");
  EXPECT_THROW(int_of(-1, "x"), InputError);
  EXPECT_THROW(int_of(0, "x", 1), InputError);
}

TEST(Quantities, TimesThatAreNoNumberAreSaidInWords) {
  EXPECT_EQ(to_text(Seconds(NAN)), "unknown");
  EXPECT_EQ(to_text(Seconds(HUGE_VAL)), "infinite");
}

}  // namespace
}  // namespace sluice
