// A real server is killed at any moment under load and started again: what workers were told is
// accepted is in the journal once, and the run goes on where it was.
//
// PACELINE_SERVER_KILLS=50 kills so often.
#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <regex>

#include "runtime/base/clock.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr size_t kWorkers = 4;

int kill_count() {
  const char* wanted = std::getenv("PACELINE_SERVER_KILLS");
  return wanted == nullptr ? 4 : std::max(1, std::atoi(wanted));
}

uint64_t number_behind(const std::string& text, const std::string& pattern) {
  const std::regex words(pattern);
  uint64_t number = 0;
  for (std::sregex_iterator found(text.begin(), text.end(), words), end; found != end; ++found)
    number = std::stoull((*found)[1]);
  return number;
}

// Workers of `pace` while the server is killed so many times; what they and the folder say then.
void check_kills(const std::string& pace, uint64_t stream) {
  CAPTURE(pace);
  Site site;
  Random random(seed(), stream);
  RunText run;
  run.pace = pace;
  const std::string folder = site.file("state");
  const auto start = [&](const std::string& rounds, const std::string& address) {
    return site.server(run, {"--state", folder, "--journal", "payload", "--rounds", rounds},
                       address);
  };
  Process server = start("1000000", "127.0.0.1:0");
  std::vector<Process> workers;
  for (size_t i = 0; i < kWorkers; ++i)
    workers.push_back(site.worker("board" + std::to_string(i), {"--step-ms", "1"}));
  TimeUs longest_start_us = 0;
  for (int kill = 0; kill < kill_count(); ++kill) {
    const size_t known = server.err().size();
    REQUIRE_MESSAGE(server.wait_err_after(known, " checksum "), tail_of(server.err()));
    const auto moment_ms = static_cast<int>(random.below(300));
    wait_until([] { return false; }, moment_ms);
    server.kill_hard();
    const TimeUs began = monotonic_now_us();
    server = start("1000000", site.address());
    longest_start_us = std::max(longest_start_us, monotonic_now_us() - began);
    CHECK(number_behind(server.err(), "going on from .*: generation ([0-9]+)") == 1);
  }
  const size_t known = server.err().size();
  REQUIRE_MESSAGE(server.wait_err_after(known, " checksum "), tail_of(server.err()));
  server.signal(SIGTERM);
  REQUIRE_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
  server = start("1", site.address());
  REQUIRE_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
  for (Process& worker : workers) REQUIRE_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));

  // It fails where an update is in the journals twice.
  const Finished replay = site.run_server({"replay", folder});
  REQUIRE_MESSAGE(replay.exit == 0, replay.err, replay.out);
  const std::string model = last_model(server.err());
  CHECK_MESSAGE(replay.out.find(model) != std::string::npos, replay.out, model);
  CHECK(replay.out.find("the state of the run's end is the same to the byte") != std::string::npos);
  const Finished inspect = site.run_server({"inspect", folder});
  REQUIRE(inspect.exit == 0);
  for (size_t i = 0; i < kWorkers; ++i) {
    const std::string name = "board" + std::to_string(i);
    const uint64_t granted = number_behind(workers[i].err(), "done: .* ([0-9]+) exchanges");
    const uint64_t applied = number_behind(inspect.out, name + " +([0-9]+) ");
    CHECK(granted > 0);
    CHECK_MESSAGE(applied >= granted, name, " was granted ", granted, "; ", inspect.out);
  }
  std::printf("%s: %d kills, longest start %.2f s\n", pace.c_str(), kill_count(),
              static_cast<double>(longest_start_us) / 1e6);
}

}  // namespace

TEST_SUITE("system/journal") {
  TEST_CASE("a server that is killed again and again keeps all that it has granted, with rounds") {
    check_kills("compat", 1);
  }
  TEST_CASE(
      "a server that is killed again and again keeps all that it has granted, without rounds") {
    check_kills("asp", 2);
  }
}
