// An emulated thin link takes the time that its rate says, both ways.
#include <doctest/doctest.h>

#include "runtime/base/clock.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

TEST_SUITE("system/link") {
  TEST_CASE("--link 1mbit: an update and a model take no less than their bytes at that rate") {
    Site site;
    RunText run;
    run.hidden = 2048;
    run.codec_up = run.codec_down = "raw32";
    run.exchange_deadline_ms = 30'000;
    Process server = site.server(run);
    const double parameters = 2048 * (8 + 1) + 3 * (2048 + 1);
    const double one_way_s = parameters * 32 / 1e6;

    const TimeUs start = monotonic_now_us();
    Process worker = site.worker("thin", {"--link", "1mbit"});
    REQUIRE_MESSAGE(server.wait_err("publication 2 checksum"), tail_of(server.err()));
    CHECK(to_seconds(monotonic_now_us() - start) >= one_way_s);
    REQUIRE_MESSAGE(worker.wait_err("publication 2 checksum"), tail_of(worker.err()));
    CHECK(to_seconds(monotonic_now_us() - start) >= 2 * one_way_s);
  }
}
