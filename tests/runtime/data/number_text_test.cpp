#include "runtime/data/number_text.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline {

TEST_SUITE("data/number_text") {
  TEST_CASE("parse_float32: agrees with the C library on every form that it accepts") {
    for (const char* text : {"0", "-0", "1", "+1", "2.6", ".5", "5.", "1e3", "1E-3", "-1.25e+2",
                             "3.4028235e38", "1e-40", "1e-50", "16777217", "0.1", "007"}) {
      CAPTURE(text);
      const auto value = parse_float32(text);
      REQUIRE(value.has_value());
      CHECK(std::bit_cast<uint32_t>(*value) == std::bit_cast<uint32_t>(std::strtof(text, nullptr)));
    }
  }

  TEST_CASE("parse_float32: any finite float printed with 9 digits comes back bit for bit") {
    Random random(test::seed(), 1);
    for (int i = 0; i < 5000; ++i) {
      const auto value = std::bit_cast<float>(static_cast<uint32_t>(random.next()));
      if (!(value - value == 0)) continue;
      char text[32];
      std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
      CAPTURE(text);
      const auto parsed = parse_float32(text);
      REQUIRE(parsed.has_value());
      CHECK(std::bit_cast<uint32_t>(*parsed) == std::bit_cast<uint32_t>(value));
    }
  }

  TEST_CASE("parse_float32: short numbers, which have a way of their own, are the C library's") {
    Random random(test::seed(), 3);
    for (int i = 0; i < 200'000; ++i) {
      std::string text = std::to_string(random.below(uint64_t{1} << (1 + random.below(27))));
      text.insert(static_cast<size_t>(random.below(text.size() + 1)), ".");
      if (random.below(2) == 0)
        text.insert(text.find('.') + 1, static_cast<size_t>(random.below(9)), '0');
      if (random.below(2) == 0) text.insert(0, "-");
      const std::optional<float> value = parse_float32(text);
      REQUIRE_MESSAGE(value.has_value(), text);
      REQUIRE_MESSAGE(std::bit_cast<uint32_t>(*value) ==
                          std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr)),
                      text);
    }
  }

  TEST_CASE("parse_float32: what is no plain decimal number of float32 is refused") {
    for (const char* text :
         {"",      " ",    "nan",   "NaN", "inf",   "-inf",   "Infinity", "1e39", "-1e39", "1e400",
          "0x1p3", "0x10", "1_000", "1,5", "1.2.3", "--1",    "+-1",      "1e",   "e5",    "1 2",
          "１２",  "NA",   ".",     "-",   "+",     "1e-400", "1f",       "1e5.0"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_float32(text).has_value());
    }
  }

  TEST_CASE("parse_whole: takes whole numbers only, also with zeros behind a point") {
    CHECK(parse_whole("7") == 7);
    CHECK(parse_whole("-3") == -3);
    CHECK(parse_whole("+12.000") == 12);
    CHECK(parse_whole("9223372036854775807") == INT64_MAX);
    for (const char* text :
         {"", ".", "1.5", "1e3", "9223372036854775808", "a", "1 ", "0x1", "+-1"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_whole(text).has_value());
    }
  }
}

}  // namespace paceline
