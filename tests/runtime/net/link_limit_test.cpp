#include <doctest/doctest.h>

#include "runtime/net/transport.h"

namespace paceline::test {
namespace {

TEST_SUITE_BEGIN("net/link_limit");

TEST_CASE("one rate holds for both directions, two are down/up") {
  const auto both = parse_link("64kbit");
  REQUIRE(both);
  CHECK(both->down_bits_per_s == 64e3);
  CHECK(both->up_bits_per_s == 64e3);
  const auto split = parse_link("10mbit/1.5mbit");
  REQUIRE(split);
  CHECK(split->down_bits_per_s == 10e6);
  CHECK(split->up_bits_per_s == 1.5e6);
  CHECK(parse_link("1gbit")->up_bits_per_s == 1e9);
  CHECK(parse_link("9600bit")->up_bits_per_s == 9600);
}

TEST_CASE("what is no rate is refused, with examples") {
  for (const char* text :
       {"", "fast", "100", "100mb", "mbit", "-1mbit", "0mbit", "nanmbit", "infgbit", "1mbit/",
        "/1mbit", "1mbit/1mbit/1mbit", "1 mbit", "1e300bit"}) {
    CAPTURE(text);
    const auto link = parse_link(text);
    REQUIRE(!link);
    CHECK(link.error().code() == Code::kInvalidArgument);
    CHECK(link.error().message().find("bit") != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
