// A server that may have no more descriptors or memory, and programs that can't start.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "tests/faults/storm_board.h"
#include "tests/faults/storm_server.h"
#include "tests/runtime/net/raw_peer.h"
#include "tests/support/temp_folder.h"
#include "tests/system/run_text.h"

using namespace paceline;
using namespace paceline::test;

namespace {

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

struct Limited {
  TempFolder folder;
  std::unique_ptr<StormServer> server;
  std::vector<StormBoard> boards;

  explicit Limited(const std::string& limits) {
    set_log_level(LogLevel::kOff);
    RunText run;
    run.checkpoint_ms = 60'000;
    Result<std::unique_ptr<StormServer>> started =
        StormServer::start({PACELINE_EDGE_SERVER, folder.file(""), run.text(), false, limits});
    REQUIRE_MESSAGE(started, started.error().message());
    server = std::move(*started);
    CHECK(let_in("first"));
  }
  bool tend() {
    bool all = true;
    for (StormBoard& board : boards) {
      board.tend(monotonic_now_us());
      all = all && board.in();
    }
    return all;
  }
  bool let_in(const std::string& name) {
    boards.push_back(StormBoard::dial(name, server->address(), std::nullopt).value());
    return wait_until([&] { return tend(); });
  }
  // Its next words are answered, not only those that were under way.
  bool goes_on() {
    const Welcome& welcome = boards.front().welcome();
    const Fetch fetch{.generation = welcome.generation, .from = 0, .to = 0, .chunk = 0};
    bool answered = false;
    wait_until([&] {
      answered = tend() && boards.front().ask(fetch).has_value();
      return answered || !server->process().running();
    });
    return answered;
  }
};

}  // namespace

TEST_SUITE("faults/limits") {
  TEST_CASE("without a descriptor for another, a server keeps whom it has, and takes more later") {
    Limited at("ulimit -n 64");
    {
      std::vector<RawPeer> peers;
      for (int i = 0; i < 120; ++i) peers.push_back(RawPeer::connect_to(at.server->address()));
      CHECK(wait_until([&] { return at.server->files() >= 60; }));
      CHECK(at.goes_on());
    }
    CHECK(at.let_in("second"));
    CHECK(at.server->process().running());
  }

// A sanitizer's shadow takes terabytes of addresses: the plain builds hold this one.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  TEST_CASE("without memory a server goes on, or ends and goes on where it was at its next start") {
    const Limited measured("");
    // Of what it has now, and of sixteen messages.
    const std::string status =
        file_text(format_text("/proc/%d/status", measured.server->process().pid()));
    const uint64_t kilobytes = std::stoull(status.substr(status.find("VmSize:") + 7));
    Limited at(format_text("ulimit -v %llu", static_cast<unsigned long long>(
                                                 kilobytes + 16 * (kMessageBytesMax >> 10))));
    {
      std::vector<RawPeer> peers;
      const std::string half = greeting(kReqProtocol) + announce(kMessageBytesMax) +
                               std::string(kMessageBytesMax / 2, 'x');
      for (int i = 0; i < 60; ++i) {
        peers.push_back(RawPeer::connect_to(at.server->address()));
        peers.back().send(half);
      }
      CHECK((at.goes_on() || !at.server->process().running()));
    }
    if (!at.server->process().running()) {
      REQUIRE(at.server->start_again().ok());
      CHECK(at.server->process().wait_err(": generation 1, publication "));
    }
    CHECK(at.let_in("second"));
    CHECK(at.server->process().running());
  }
#endif

  TEST_CASE("a start that can't succeed ends with a few lines: 2 where no restart helps, else 1") {
    Limited at("");
    const std::string bad = at.folder.write("bad.toml", "[model]\ninput = [8]\nclasse = 3\n");
    const auto serve = [&](const std::string& run, const std::string& address) {
      return run_program(
          {PACELINE_EDGE_SERVER, {"serve", run, "--listen", address}, at.folder.file("tried")});
    };
    const Finished broken = serve(bad, "127.0.0.1:0");
    CHECK(broken.exit == 2);
    CHECK_MESSAGE(lines_of(broken.err).size() == 1, broken.err);
    const Finished taken = serve(at.folder.file("run.toml"), at.server->address());
    CHECK(taken.exit == 1);
    const std::string only_that = taken.err.substr(broken.err.size());
    CHECK_MESSAGE(lines_of(only_that).size() <= 5, only_that);
    CHECK_MESSAGE(says(only_that, "is in use"), only_that);
  }

  TEST_CASE("the units start again ever more rarely, for ever, and not after exit code 2") {
    for (const char* unit : {"edge-server", "edge-worker"}) {
      const std::string text = file_text(format_text("platforms/systemd/%s.service", unit));
      for (const char* line :
           {"\nRestart=on-failure\n", "\nRestartPreventExitStatus=2\n",
            "\nRestartSec=", "\nRestartMaxDelaySec=600\n", "\nStartLimitIntervalSec=0\n"})
        CHECK_MESSAGE(says(text, line), unit, line);
    }
  }
}
