// One run from start to end, and everything that may stop and come back in between.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <regex>

#include "runtime/base/status.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

std::string board(size_t index) { return format_text("board%zu", index + 1); }

// A server that keeps its state, and three boards of different speed. A round takes some 20 ms.
struct Fleet {
  Site site;
  RunText run;
  std::string journal;
  Process server;
  std::vector<Process> workers;

  explicit Fleet(RunText run_text = {}, const std::string& rounds = "1000000",
                 std::string journal_mode = "round")
      : run(std::move(run_text)),
        journal(std::move(journal_mode)),
        server(start_server(rounds, "127.0.0.1:0")) {
    for (size_t i = 0; i < 3; ++i) workers.push_back(start_worker(i));
  }

  Process start_server(const std::string& rounds, const std::string& address) {
    return site.server(
        run, {"--state", site.file("state"), "--rounds", rounds, "--journal", journal}, address);
  }
  Process start_worker(size_t index) {
    return site.worker(board(index), {"--step-ms", format_text("%u", 1u << index)});
  }
  // The same state, the same address.
  void restart_server(const std::string& rounds = "1000000") {
    server = start_server(rounds, site.address());
  }

  // `count` publications more than there are now.
  void goes_on(uint64_t count = 10) {
    const size_t known = server.err().size();
    REQUIRE_MESSAGE(wait_until([&] {
                      const std::string log = server.err().substr(known);
                      return checksums_of(log).size() >= count || !server.running();
                    }),
                    tail_of(server.err()));
    REQUIRE_MESSAGE(server.running(), tail_of(server.err()));
  }

  // A run that is stopped and started again with fewer rounds than it has is over.
  void end() {
    server.signal(SIGTERM);
    REQUIRE_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
    restart_server("1");
    ends_in_order();
  }
  void ends_in_order() {
    CHECK_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
    for (Process& worker : workers) CHECK_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));
    CHECK(no_process_left());
    // Everybody's last words name the same model.
    const std::string model = last_model(server.err());
    CHECK(!model.empty());
    for (const Process& worker : workers) CHECK(last_model(worker.err()) == model);
  }
};

struct Place {
  uint64_t generation = 0;
  uint64_t publication = 0;
};
// Where the newest life of a server took up the run.
Place taken_up(const Process& server) {
  static const std::regex words("going on from .*: generation ([0-9]+), publication ([0-9]+)");
  const std::string log = server.err();
  Place place;
  for (std::sregex_iterator found(log.begin(), log.end(), words), end; found != end; ++found)
    place = {std::stoull((*found)[1]), std::stoull((*found)[2])};
  return place;
}

}  // namespace

TEST_SUITE("system/life") {
  TEST_CASE("a run of so many rounds ends by itself, with one model on all machines") {
    for (const std::string pace : {"compat", "bsp", "asp", "ssp:3"}) {
      CAPTURE(pace);
      RunText run;
      run.pace = pace;
      Fleet(run, "20").ends_in_order();
    }
  }

  TEST_CASE("a worker that is killed holds nobody up, and joins again under its name") {
    Fleet fleet;
    fleet.goes_on();
    fleet.workers[1].kill_hard();
    fleet.goes_on();
    const size_t known = fleet.workers[1].err().size();
    fleet.workers[1] = fleet.start_worker(1);
    CHECK(fleet.workers[1].wait_err_after(known, "checksum"));
    fleet.goes_on();
    fleet.end();
  }

  TEST_CASE("a worker that is asked to leave says goodbye, and the others go on") {
    Fleet fleet;
    fleet.goes_on();
    for (const int number : {SIGTERM, SIGINT}) {
      Process& leaver = fleet.workers.back();
      leaver.signal(number);
      CHECK_MESSAGE(leaver.wait_exit(10'000) == 0, tail_of(leaver.err()));
      fleet.workers.pop_back();
      CHECK(fleet.server.wait_err("worker " + board(fleet.workers.size()) + " leaves"));
      fleet.goes_on();
    }
    fleet.end();
  }

  TEST_CASE("a server that is killed goes on where it was, in its generation") {
    for (const std::string journal : {"round", "payload"}) {
      Fleet fleet({}, "1000000", journal);
      fleet.goes_on(30);
      fleet.server.kill_hard();
      const uint64_t reached = newest_publication(fleet.server.err());
      fleet.restart_server();
      const Place place = taken_up(fleet.server);
      CHECK(place.generation == 1);
      // The newest may have been told to nobody yet.
      CHECK(place.publication + 1 >= reached);
      fleet.goes_on();
      for (const Process& worker : fleet.workers)
        CHECK(worker.err().find("the server went back") == std::string::npos);
      fleet.end();
    }
  }

  TEST_CASE("without a journal it goes on from its snapshot, in a new generation") {
    Fleet fleet({}, "1000000", "off");
    fleet.goes_on(30);
    fleet.server.kill_hard();
    const uint64_t reached = newest_publication(fleet.server.err());
    for (Process& worker : fleet.workers)
      CHECK_MESSAGE(worker.wait_err("waiting for the server"), tail_of(worker.err()));
    fleet.restart_server();
    const Place place = taken_up(fleet.server);
    CHECK(place.generation == 2);
    CHECK(place.publication > 2);
    CHECK(place.publication <= reached + 3);
    fleet.goes_on();
    fleet.end();
  }

  TEST_CASE("a server that is stopped in order goes on where it stopped, in its generation") {
    Fleet fleet;
    fleet.goes_on();
    for (const int number : {SIGTERM, SIGINT}) {
      fleet.server.signal(number);
      REQUIRE_MESSAGE(fleet.server.wait_exit(10'000) == 0, tail_of(fleet.server.err()));
      const uint64_t reached = newest_publication(fleet.server.err());
      fleet.restart_server();
      const Place place = taken_up(fleet.server);
      CHECK(place.generation == 1);
      CHECK(place.publication == reached);
      fleet.goes_on();
    }
    fleet.end();
  }

  TEST_CASE("a run that is over waits for a worker that was there before the server's restart") {
    Fleet fleet;
    fleet.goes_on();
    fleet.workers[2].signal(SIGSTOP);
    fleet.server.signal(SIGTERM);
    REQUIRE_MESSAGE(fleet.server.wait_exit() == 0, tail_of(fleet.server.err()));
    fleet.restart_server("1");
    for (size_t i = 0; i < 2; ++i) CHECK(fleet.workers[i].wait_exit() == 0);
    CHECK(fleet.server.wait_exit(1'500) == -1);
    fleet.workers[2].signal(SIGCONT);
    fleet.ends_in_order();
  }

  TEST_CASE("workers may be there before the server") {
    Fleet fleet;
    fleet.server.kill_hard();
    for (Process& worker : fleet.workers) worker.kill_hard();
    for (size_t i = 0; i < 3; ++i) fleet.workers[i] = fleet.start_worker(i);
    for (Process& worker : fleet.workers) CHECK(worker.wait_err("dialing " + fleet.site.address()));
    std::vector<size_t> known;
    for (const Process& worker : fleet.workers) known.push_back(worker.err().size());
    fleet.restart_server();
    // Each dials anew after a pause of its own: a run that ends before is not waited for.
    for (size_t i = 0; i < 3; ++i) CHECK(fleet.workers[i].wait_err_after(known[i], " checksum "));
    fleet.goes_on();
    fleet.end();
  }

  TEST_CASE("a run starts from an earlier one's model, and goes on when that file is gone") {
    Site site;
    RunText run;
    Process first = site.server(run, {"--state", site.file("first"), "--rounds", "20"});
    Process worker = site.worker("a");
    CHECK(worker.wait_exit() == 0);
    REQUIRE_MESSAGE(first.wait_exit() == 0, tail_of(first.err()));
    const std::string model = site.file("first") + "/model.safetensors";

    const std::vector<std::string> arguments = {"--state", site.file("second"), "--start", model};
    Process second = site.server(run, arguments);
    Process again = site.worker("b");
    REQUIRE_MESSAGE(again.wait_err("publication 1 checksum"), tail_of(again.err()));
    CHECK_MESSAGE(checksums_of(again.err()).at(1) ==
                      last_model(worker.err()).substr(last_model(worker.err()).size() - 8),
                  tail_of(again.err()));
    second.signal(SIGTERM);
    REQUIRE(second.wait_exit() == 0);

    std::filesystem::remove(model);
    Process third = site.server(run, arguments, site.address());
    CHECK_MESSAGE(third.running(), tail_of(third.err()));
    Process fresh =
        site.start_server({"serve", site.file("run.toml"), "--plain", "--start", model}, "fresh");
    CHECK(fresh.wait_exit() == 2);
    CHECK_MESSAGE(fresh.err().find("model.safetensors") != std::string::npos, fresh.err());
  }
}
