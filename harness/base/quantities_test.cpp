#include "harness/base/quantities.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(parse_bytes("512", "x"), Bytes(512));
  EXPECT_EQ(parse_bytes("16GiB", "x"), GiB(16));
  EXPECT_EQ(parse_bytes("25 GiB/s", "x"), GiB(25));
  EXPECT_EQ(parse_bytes("1.5MB", "x"), Bytes(1'500'000));
  EXPECT_EQ(parse_bytes("10Gb/s", "x"), Bytes(1'250'000'000));
  EXPECT_EQ(parse_bytes("900GB", "x"), Bytes(900'000'000'000));
}

TEST(UnitsTest, BadBytesAreRefusedWithTheirPlace) {
  EXPECT_EQ(error_of([] { parse_bytes("many", "c.json: /memory"); }),
            "c.json: /memory: 'many' is not a quantity; write it like 16GiB");
  EXPECT_EQ(error_of([] { parse_bytes("16 gibi", "x"); }),
            "x: unknown unit in '16 gibi'; use B, KiB, MiB, GiB, kB, MB, GB or Gb");
  EXPECT_EQ(error_of([] { parse_bytes("-1GiB", "x"); }),
            "x: '-1GiB' must be finite and not negative; write it like 16GiB");
  EXPECT_EQ(error_of([] { parse_bytes("1e30", "x"); }), "x: '1e30' is too large");
  EXPECT_NE(error_of([] { parse_bytes("inf", "x"); }), "no error");
}

TEST(UnitsTest, SecondsAreReadInEveryUnit) {
  EXPECT_DOUBLE_EQ(parse_seconds("5us", "x").value, 5e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5 ms", "x").value, 1.5e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("2s", "x").value, 2);
  EXPECT_DOUBLE_EQ(parse_seconds("0.25", "x").value, 0.25);
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

}  // namespace
}  // namespace sluice
