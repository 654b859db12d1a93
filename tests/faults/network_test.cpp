// Bad networks between real programs: each end notices by itself, and what was cut off comes back.
#include <doctest/doctest.h>

#include <csignal>
#include <functional>

#include "tests/faults/proxy.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr const char* kNoAnswer = "waiting for the server: no answer";
constexpr const char* kOut = "worker far is out of the round: not heard of";

// Two workers that train together, one of them behind the proxy.
struct Fleet {
  enum class Security { kPlain, kTls };

  Site site;
  RunText run;
  Security security;
  Process server;
  std::unique_ptr<Proxy> proxy;
  Process far, near;

  explicit Fleet(RunText text = quick(), Security wanted = Security::kPlain)
      : run(std::move(text)),
        security(wanted),
        server(start_server()),
        proxy(*Proxy::start({.target = host_and_port(site.address()), .seed = seed()})),
        far(start_far()),
        near(start("near", site.address())) {
    trains(far);
    trains(near);
  }

  static RunText quick() {
    RunText text;
    text.exchange_deadline_ms = 1'500;
    return text;
  }
  static std::string host_and_port(const std::string& address) {
    return address.substr(address.find("//") == std::string::npos ? 0 : address.find("//") + 2);
  }

  Process start_server() {
    if (security == Security::kPlain) return site.server(run);
    const std::string folder = site.file("fleet");
    CHECK(site.run_server({"init", folder}).exit == 0);
    Process process = site.server(run, {"--fleet", folder}, "tls+tcp://127.0.0.1:0");
    for (const char* name : {"far", "near"}) {
      const Finished code = site.run_server({"enrol", name, "--fleet", folder});
      REQUIRE_MESSAGE(code.exit == 0, code.err);
      const std::string words = "enrolment is open on ";
      REQUIRE_MESSAGE(process.wait_err(words), tail_of(process.err()));
      const std::string door = lines_of(process.err().substr(process.err().rfind(words))).front();
      const Finished joined =
          site.run_worker({"join", host_and_port(door), lines_of(code.out).front(), "--state",
                           site.file(std::string(name) + ".state")});
      REQUIRE_MESSAGE(joined.exit == 0, joined.err);
    }
    return process;
  }
  Process start_far() {
    const std::string address = proxy->address();
    return start("far", security == Security::kTls ? "tls+tcp://" + address : address);
  }
  Process start(const std::string& name, const std::string& address) {
    return site.worker_at(address, name, {"--step-ms", "2", "--state", site.file(name + ".state")});
  }

  // Takes a publication that was made from now on.
  void trains(Process& worker) {
    const uint64_t made = newest_publication(server.err());
    CHECK_MESSAGE(wait_until([&] { return newest_publication(worker.err()) > made + 1; }),
                  tail_of(worker.err()), tail_of(server.err()));
  }
  // Both ends said it, the other worker goes on, and afterwards all is as it was.
  void check_outage(const LinkFaults& up, const LinkFaults& down, bool server_misses) {
    const size_t said_before = server.err().size(), far_said_before = far.err().size();
    proxy->set_up(up);
    proxy->set_down(down);
    CHECK_MESSAGE(far.wait_err_after(far_said_before, kNoAnswer), tail_of(far.err()));
    if (server_misses)
      CHECK_MESSAGE(server.wait_err_after(said_before, kOut), tail_of(server.err()));
    trains(near);
    proxy->heal();
    CHECK_MESSAGE(far.wait_err_after(far_said_before, "the server answers again"),
                  tail_of(far.err()));
    trains(far);
  }

  // What the worker sends is changed on its way, in one connection after another.
  void check_garbled(double share, const std::function<void()>& mend) {
    const uint64_t before = newest_publication(near.err());
    proxy->set_up({.garbled_share = share});
    for (int connection = 0; connection < 8; ++connection) {
      const uint64_t garbled = proxy->bytes_garbled();
      proxy->cut();
      wait_until([&] { return proxy->bytes_garbled() > garbled + 2; }, 400);
    }
    CHECK(proxy->bytes_garbled() > 2);
    CHECK_MESSAGE(wait_until([&] { return newest_publication(near.err()) > before + 20; }),
                  tail_of(near.err()));
    proxy->heal();
    proxy->cut();
    mend();
    trains(far);
    server.signal(SIGTERM);
    CHECK_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
  }
};

}  // namespace

TEST_SUITE("faults/network") {
  TEST_CASE("a black hole is noticed by both ends, and the worker is back when it is over") {
    Fleet fleet;
    fleet.check_outage({.held = true}, {.held = true}, true);
  }

  TEST_CASE("a cut from worker to server alone is noticed by both ends") {
    Fleet fleet;
    fleet.check_outage({.held = true}, {}, true);
  }

  TEST_CASE("a cut from server to worker alone is noticed by the worker, which still counts") {
    Fleet fleet;
    fleet.check_outage({}, {.held = true}, false);
  }

  TEST_CASE("connections that are ended again and again are made again") {
    Fleet fleet;
    for (int i = 0; i < 5; ++i) {
      const size_t known = fleet.far.err().size();
      fleet.proxy->cut();
      CHECK_MESSAGE(fleet.far.wait_err_after(known, " checksum "), tail_of(fleet.far.err()));
    }
    fleet.trains(fleet.far);
    fleet.trains(fleet.near);
  }

  TEST_CASE("on a thin link updates do not starve heartbeats: the worker counts all the while") {
    RunText run;
    run.hidden = 1024;  // an update is 49 kB as raw32: 0.8 s on this link
    run.codec_up = "raw32";
    run.heartbeat_ms = 1000;
    run.exchange_deadline_ms = 60'000;
    Fleet fleet(run);
    const size_t known = fleet.server.err().size();
    fleet.proxy->set_up({.delay_us = from_ms(50), .bits_per_s = 500e3});
    fleet.proxy->set_down({.delay_us = from_ms(50), .bits_per_s = 500e3});
    fleet.trains(fleet.far);
    fleet.trains(fleet.far);
    CHECK_MESSAGE(fleet.server.err().find(kOut, known) == std::string::npos,
                  tail_of(fleet.server.err()));
  }

  TEST_CASE("bytes that change on the way of a plain worker do the server and the others nothing") {
    Fleet fleet;
    fleet.check_garbled(1e-2, [&] {
      // What it was told in answer to its broken messages may have ended it.
      if (!fleet.far.running()) fleet.far = fleet.start_far();
    });
  }

  TEST_CASE("bytes that change under TLS end the connection, and nobody takes anything from it") {
    Fleet fleet(Fleet::quick(), Fleet::Security::kTls);
    fleet.check_garbled(1e-2, [] {});
    CHECK_MESSAGE(fleet.far.running(), tail_of(fleet.far.err()));
    // Late updates are refused; none for what it is made of.
    CHECK(fleet.server.err().find("broken message") == std::string::npos);
    CHECK(fleet.server.err().find(" refused: chunk ") == std::string::npos);
  }
}
