// A server is a function of what reaches it and when: another one that meets the trace of a run is
// in the same state after each of its turns.
#include <doctest/doctest.h>

#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/pace/pace.h"
#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;

namespace {

constexpr TimeUs kRunUs = 60'000'000;

// What came in at one instant, and what the server was after it.
struct Turn {
  TimeUs at = 0;
  std::vector<Envelope> arrivals;
  uint32_t state = 0;
};

uint32_t state_of(const ServerCore& server) { return crc32c(server.save()); }

// Five boards on a bad network, of which one crashes, one is late and one leaves.
FleetOptions busy_fleet(const std::string& pace) {
  FleetOptions options = test::toy_fleet({.workers = 5, .skewed = true});
  options.seed = test::seed();
  options.server.pace = pace;
  options.server.freq = "trend";
  options.server.codec_up_auto = options.server.codec_down_auto = true;
  options.server.min_workers = 2;
  options.faults = {.delay_us = 2000,
                    .jitter_us = 6000,
                    .request_loss = 0.01,
                    .reply_loss = 0.01,
                    .duplication = 0.1};
  for (FleetWorker& worker : options.workers) worker.held_out_rows = 40;
  options.workers[1].step_us = 10'000;
  options.workers[2].crashes_at_us = 2'000'000;
  options.workers[2].back_after_us = 3'000'000;
  options.workers[3].joins_at_us = 1'000'000;
  options.workers[4].leaves_at_us = 30'000'000;
  return options;
}

std::vector<Turn> run_traced(FleetOptions options) {
  std::vector<Turn> trace(1);
  std::unique_ptr<Fleet> fleet;
  options.tamper = [&](Envelope* envelope) { trace.back().arrivals.push_back(*envelope); };
  options.before_replies = [&](ServerCore& server) {
    trace.back().at = fleet->now();
    trace.back().state = state_of(server);
    trace.emplace_back();
    return true;
  };
  fleet = Fleet::make(options).value();
  fleet->run(kRunUs, [] { return false; });
  CHECK(fleet->server().version() > 20);
  trace.pop_back();
  return trace;
}

}  // namespace

TEST_SUITE("simulate/replay") {
  TEST_CASE("the trace of a run, met by another server, gives the same state after every turn") {
    set_log_level(LogLevel::kOff);
    for (const PaceInfo& pace : paces()) {
      CAPTURE(pace.name);
      const FleetOptions options = busy_fleet(pace.name);
      const std::vector<Turn> trace = run_traced(options);
      std::unique_ptr<ServerCore> other = ServerCore::make(options.server).value();
      RequestToken token = 1;
      size_t different = 0;
      for (const Turn& turn : trace) {
        for (const Envelope& envelope : turn.arrivals)
          other->on_request(token++, "", envelope, turn.at);
        if (other->next_timer() <= turn.at) other->on_timer(turn.at);
        other->take_replies();
        different += state_of(*other) != turn.state;
      }
      CHECK(trace.size() > 1000);
      CHECK(different == 0);
    }
  }
}
