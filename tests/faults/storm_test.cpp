// A small storm and a small siege. By hand, with five hundred boards: ./dev storm.
#include "tests/faults/storm.h"

#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "tests/faults/storm_board.h"
#include "tests/faults/storm_server.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/system/run_text.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr int kFarewellMs = 1'000;  // longer than a refusal has to arrive

SiegeReport small_siege(bool secure) {
  const TempFolder folder;
  SiegeOptions options;
  options.edge_server = PACELINE_EDGE_SERVER;
  options.folder = folder.file("");
  options.secure = secure;
  options.silent = 200;
  options.halves = 20;
  options.garbage = 200;
  options.seed = seed();
  const Result<SiegeReport> report = siege(options);
  REQUIRE_MESSAGE(report, report.error().message());
  return *report;
}

}  // namespace

TEST_SUITE("faults/storm") {
  TEST_CASE("fifty boards behind one address get in at once, and again after a restart") {
    set_log_level(LogLevel::kOff);
    const TempFolder folder;
    StormOptions options;
    options.edge_server = PACELINE_EDGE_SERVER;
    options.busy_program = PACELINE_STORM;
    options.folder = folder.file("");
    options.boards = 50;
    const Result<StormReport> report = storm(options);
    REQUIRE_MESSAGE(report, report.error().message());
    CHECK(report->first.boards == 50);
    CHECK(report->again.boards == 50);
    // Who was there before goes on, and is back after the restart.
    CHECK(report->first.works > 0);
    CHECK(report->quiet.works > 0);
    CHECK(report->again.works > 0);
  }

  TEST_CASE("who was turned away before the list named it is not cut off once it is in") {
    set_log_level(LogLevel::kOff);
    const TempFolder folder;
    const auto server =
        StormServer::start({PACELINE_EDGE_SERVER, folder.file(""), RunText().text(), true});
    REQUIRE_MESSAGE(server, server.error().message());
    const auto certificates = (*server)->enlist({"early"});
    REQUIRE(certificates);
    auto board = StormBoard::dial("early", (*server)->address(), certificates->front());
    REQUIRE(board);
    const auto in = [&] {
      board->tend(monotonic_now_us());
      return board->in();
    };
    REQUIRE_MESSAGE(wait_until(in), board->trouble());
    const auto cut_off = [&] {
      board->tend(monotonic_now_us());
      return (*server)->process().err().find("disconnected") != std::string::npos;
    };
    CHECK_FALSE(wait_until(cut_off, kFarewellMs));
  }

  TEST_CASE("silent connections, half messages and garbage keep no honest board out") {
    set_log_level(LogLevel::kOff);
    for (const bool secure : {true, false}) {
      CAPTURE(secure);
      const SiegeReport report = small_siege(secure);
      CHECK(report.files_during >= report.files_before);
      CHECK(report.files_after <= report.files_before + 4);
    }
  }
}
