// A real worker is killed at any moment, most often between push and commit, and started again with
// what it has kept: the server has each update once, and the residual is what it was or zero.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <regex>
#include <set>

#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/base/state_store.h"
#include "runtime/base/status.h"
#include "runtime/worker/worker_state.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr int kKills = 8;
const char* const kKept = "going on with what was kept";
const char* const kOutdated = "what was kept is out of date";

RunText quick_run() {
  RunText run;
  run.pace = "asp";  // what is committed is applied at once: the server's log tells the verdicts
  run.freq = "fixed:4";
  run.heartbeat_ms = 50;
  return run;
}

// Sequences of `worker` that the server has taken, in the order of its log.
std::vector<uint64_t> taken(const std::string& server_log, const std::string& worker) {
  const std::regex line("worker " + worker + ": update ([0-9]+) is taken\n");
  std::vector<uint64_t> sequences;
  for (std::sregex_iterator found(server_log.begin(), server_log.end(), line), end; found != end;
       ++found)
    sequences.push_back(std::stoull((*found)[1]));
  return sequences;
}

std::optional<WorkerState> kept_in(const std::string& folder) {
  Result<StateStore> store = StateStore::open(folder, "worker");
  REQUIRE(store.has_value());
  const Result<std::optional<StateStore::Found>> found = store->load();
  REQUIRE(found.has_value());
  if (!*found) return std::nullopt;
  Result<WorkerState> state = decode_state((*found)->state);
  REQUIRE(state.has_value());
  return std::move(*state);
}

}  // namespace

TEST_SUITE("system/state") {
  TEST_CASE("killed again and again: the state is kept where it is true, and nothing comes twice") {
    Site site;
    Process server = site.server(quick_run());
    const std::string folder = site.file("kept");
    // Saves as often as it can, and takes its time to send.
    const std::vector<std::string> arguments = {
        "--step-ms", "2", "--link", "256kbit", "--state", folder, "--state-mb-per-day", "1000000"};
    Random random(seed(), 1);
    size_t before = 0;
    int kept = 0, outdated = 0;
    Process worker = site.worker("shed", arguments);
    // Where a kill falls is the machine's business: as many as it takes to meet both kinds.
    for (int kill = 0; kill < kKills || (kept < 2 && kill < 4 * kKills); ++kill) {
      // So many lines of its log after a commit: at a cut, in a push, at a commit or in a fetch.
      REQUIRE_MESSAGE(worker.wait_err_after(before, "goes to be committed"), tail_of(worker.err()));
      const size_t known = worker.err().size();
      const uint64_t lines = 1 + random.below(8);
      REQUIRE_MESSAGE(wait_until([&] {
                        return lines_of(worker.err().substr(known)).size() >= lines ||
                               !worker.running();
                      }),
                      tail_of(worker.err()));
      worker.kill_hard();
      const std::optional<WorkerState> saved = kept_in(folder);
      before = worker.err().size();
      worker = site.worker("shed", arguments);
      if (!saved) continue;
      REQUIRE_MESSAGE(wait_until([&] {
                        const std::string log = worker.err().substr(before);
                        return log.find(kKept) != std::string::npos ||
                               log.find(kOutdated) != std::string::npos || !worker.running();
                      }),
                      tail_of(worker.err()));
      const std::string log = worker.err().substr(before);
      const bool is_kept = log.find(kKept) != std::string::npos;
      is_kept ? ++kept : ++outdated;
      // What the server had settled when the new life said hello is what it had taken of the old
      // ones.
      const std::string server_log = server.err();
      const std::vector<uint64_t> settled =
          taken(server_log.substr(0, server_log.rfind("worker shed joins")), "shed");
      const uint64_t newest = settled.empty() ? 0 : settled.back();
      const bool is_true =
          newest == saved->last_settled || (saved->pending && newest == saved->pending->sequence);
      CHECK_MESSAGE(is_kept == is_true, "settled " << saved->last_settled << " when saved, "
                                                   << newest << " at the server; " << tail_of(log));
      if (is_kept)
        CHECK_MESSAGE(log.find(format_text("residual checksum %08x",
                                           model_checksum(saved->residual))) != std::string::npos,
                      tail_of(log));
    }
    CHECK_MESSAGE(kept >= 2, kept << " kept, " << outdated << " out of date");
    worker.signal(SIGTERM);
    CHECK_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));
    server.signal(SIGTERM);
    CHECK_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
    const std::vector<uint64_t> sequences = taken(server.err(), "shed");
    CHECK(sequences.size() > kKills);
    CHECK(std::set<uint64_t>(sequences.begin(), sequences.end()).size() == sequences.size());
    CHECK(std::is_sorted(sequences.begin(), sequences.end()));
  }

  TEST_CASE("a worker that is stopped in order goes on with its residual, and nothing is lost") {
    Site site;
    RunText run = quick_run();
    run.codec_up = "q8";
    Process server = site.server(run);
    const std::string folder = site.file("kept");
    const std::vector<std::string> arguments = {"--step-ms", "1", "--state", folder};
    for (int life = 0; life < 3; ++life) {
      const size_t known = file_text(site.file("shed.err")).size();
      Process worker = site.worker("shed", arguments);
      CHECK_MESSAGE(worker.wait_err_after(known, "goes to be committed"), tail_of(worker.err()));
      worker.signal(SIGTERM);
      REQUIRE_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));
      const std::optional<WorkerState> saved = kept_in(folder);
      REQUIRE(saved.has_value());
      CHECK_FALSE(saved->pending.has_value());
      CHECK(saved->last_settled == taken(server.err(), "shed").back());
      CHECK_MESSAGE((worker.err().find(kOutdated) == std::string::npos), tail_of(worker.err()));
      size_t times_kept = 0;
      for (const std::string& line : lines_of(worker.err()))
        times_kept += line.find(kKept) != std::string::npos;
      CHECK(times_kept == static_cast<size_t>(life));
    }
  }

  TEST_CASE(
      "a folder that can't be used is said once; a broken file and another run's are set aside") {
    Site site;
    Process server = site.server(quick_run());
    // Works for a while and leaves in order; what it said.
    const auto life_of = [&](const std::string& name, const std::string& folder) {
      const size_t known = file_text(site.file(name + ".err")).size();
      Process worker = site.worker(name, {"--state", folder});
      CHECK_MESSAGE(worker.wait_err_after(known, "goes to be committed"), tail_of(worker.err()));
      worker.signal(SIGTERM);
      CHECK_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));
      return worker.err().substr(known);
    };
    size_t said = 0;
    for (const std::string& line : lines_of(life_of("memory", "/proc/self")))
      said += line.find("nothing is kept over a restart") != std::string::npos;
    CHECK(said == 1);

    // Two boards on one folder are a mistake.
    const std::string shared = site.file("shared");
    Process first = site.worker("barn", {"--state", shared});
    CHECK(first.wait_err("goes to be committed"));
    Process second = site.worker("hall", {"--state", shared});
    CHECK(second.wait_exit() == 2);
    CHECK_MESSAGE(
        second.err().find(shared + ": another program uses this folder") != std::string::npos,
        second.err());
    first.kill_hard();

    const std::string folder = site.file("kept");
    life_of("shed", folder);
    for (const char* file : {"kept/worker.a", "kept/worker.b"}) site.write(file, "torn");
    const std::string torn = life_of("shed", folder);
    CHECK(torn.find("worker.a.bad") != std::string::npos);
    CHECK(torn.find("worker.b.bad") != std::string::npos);

    server.signal(SIGTERM);
    CHECK(server.wait_exit() == 0);
    RunText other = quick_run();
    other.hidden = 17;
    server = site.server(other);
    const std::string moved = life_of("shed", folder);
    CHECK_MESSAGE(moved.find("it belongs to another run; set aside as") != std::string::npos,
                  tail_of(moved));
  }
}
