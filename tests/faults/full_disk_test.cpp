// Real disks that are full, or may not be written any more, under real programs.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "tests/faults/power_disk.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

// A disk of its own; none, with the reason in the log, where there can't be one.
std::unique_ptr<PowerDisk> make_disk(const Site& site, const std::string& name) {
  Result<std::unique_ptr<PowerDisk>> disk =
      PowerDisk::make(site.file("disks"), site.file("disks"), name, 16);
  if (disk) return std::move(*disk);
  std::printf("not run here: %s\n", disk.error().message().c_str());
  return nullptr;
}

struct FullDisk {
  Site site;
  std::unique_ptr<PowerDisk> disk = make_disk(site, "server");
  std::string state = disk ? disk->path() + "/state" : "";
  std::string run_file;
  std::optional<Process> server, worker;

  explicit FullDisk(const char* disk_full) {
    RunText run;
    run.exchange_deadline_ms = 1'000;
    run_file = site.write("run.toml", run.text() + "disk_full = \"" + disk_full + "\"\n");
    if (!disk) return;
    server.emplace(serve("1000000"));
    worker.emplace(site.worker("board", {"--step-ms", "5"}));
    REQUIRE_MESSAGE(worker->wait_err("is granted\n"), tail_of(worker->err()));
    REQUIRE(disk->fill().ok());
    CHECK_MESSAGE(server->wait_err("the journal failed"), tail_of(server->err()));
  }

  Process serve(const std::string& rounds) {
    return site.server_of(run_file, {"--state", state, "--rounds", rounds},
                          site.address().empty() ? "127.0.0.1:0" : site.address());
  }
  // The worker is told something from now on.
  bool worker_says(const std::string& text) {
    return worker->wait_err_after(worker->err().size(), text);
  }
  void free_up() {
    REQUIRE(disk->free_up().ok());
    CHECK_MESSAGE(server->wait_err("what is granted is durable"), tail_of(server->err()));
    CHECK_MESSAGE(worker_says("is granted\n"), tail_of(worker->err()));
  }
  // In order, and the next life is the same generation.
  void end() {
    server->signal(SIGTERM);
    CHECK_MESSAGE(server->wait_exit() == 0, tail_of(server->err()));
    server.emplace(serve("1"));
    CHECK(server->wait_err(": generation 1, publication "));
    CHECK_MESSAGE(server->wait_exit() == 0, tail_of(server->err()));
    CHECK_MESSAGE(worker->wait_exit() == 0, tail_of(worker->err()));
    CHECK(last_model(worker->err()) == last_model(server->err()));
  }
};

// Whose state lies on a disk of its own.
struct Worker {
  Site site;
  std::unique_ptr<PowerDisk> disk = make_disk(site, "board");
  std::optional<Process> server, worker;

  Worker() {
    if (!disk) return;
    server.emplace(site.server({}));
    const std::string state = disk->path() + "/state";
    worker.emplace(
        site.worker("board", {"--step-ms", "2", "--state", state, "--state-mb-per-day", "20000"}));
    const auto saved_twice = [&] { return std::filesystem::exists(state + "/worker.b"); };
    REQUIRE_MESSAGE(wait_until(saved_twice), tail_of(worker->err()));
  }
  void trains_on() {
    CHECK_MESSAGE(worker->wait_err("going on without: what is not sent yet is lost by a restart"),
                  tail_of(worker->err()));
    CHECK_MESSAGE(worker->wait_err_after(worker->err().size(), "is granted"),
                  tail_of(worker->err()));
  }
};

}  // namespace

TEST_SUITE("faults/full_disk") {
  TEST_CASE("disk_full = wait: nothing is granted on a full disk, and the run goes on afterwards") {
    FullDisk at("wait");
    if (!at.disk) return;
    // What was synced before it was full may still be told of.
    at.worker->wait_err("the server can't write", 3'000);
    const size_t known = at.worker->err().size();
    CHECK_FALSE(at.worker->wait_err_after(known, "is granted", 1'500));
    CHECK(at.server->running());
    at.free_up();
    at.end();
  }

  TEST_CASE("disk_full = go_on: grants say that they are not durable until there is space again") {
    FullDisk at("go_on");
    if (!at.disk) return;
    CHECK_MESSAGE(at.worker_says("is granted, not durable"), tail_of(at.worker->err()));
    at.free_up();
    at.end();
  }

  TEST_CASE("a start on a full disk is an error that names it, and harms nothing") {
    FullDisk at("wait");
    if (!at.disk) return;
    at.server->kill_hard();
    const Finished refused =
        at.site.run_server({"serve", at.run_file, "--listen", "127.0.0.1:0", "--state", at.state});
    CHECK(refused.exit == 1);
    CHECK_MESSAGE(refused.err.find("No space left on device") != std::string::npos, refused.err);
    REQUIRE(at.disk->free_up().ok());
    at.server.emplace(at.serve("1000000"));
    CHECK_MESSAGE(at.worker_says("is granted\n"), tail_of(at.worker->err()));
    at.end();
  }

  TEST_CASE("a worker whose disk is full trains on and says so, and keeps its state again later") {
    Worker at;
    if (!at.disk) return;
    REQUIRE(at.disk->fill().ok());
    at.trains_on();
    REQUIRE(at.disk->free_up().ok());
    CHECK_MESSAGE(at.worker->wait_err("state is kept again"), tail_of(at.worker->err()));
  }

  TEST_CASE("a worker whose disk is read-only all at once trains on in memory") {
    Worker at;
    if (!at.disk) return;
    // As after an error of the card.
    REQUIRE(mount("", at.disk->path().c_str(), "", MS_REMOUNT, "abort") == 0);
    at.trains_on();
  }
}
