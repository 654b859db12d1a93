// One run from start to end, and everything that may stop and come back in between.
#include <doctest/doctest.h>

#include <csignal>

#include "runtime/base/status.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

// A server and three boards of different speed; the slowest step makes a round last some 20 ms.
struct Fleet {
  Site site;
  Process server;
  std::vector<Process> workers;

  explicit Fleet(const RunText& run, const std::vector<std::string>& server_arguments)
      : server(site.server(run, server_arguments)) {
    for (uint32_t i = 0; i < 3; ++i)
      workers.push_back(site.worker(name(i), {"--step-ms", format_text("%u", 1u << i)}));
  }
  static std::string name(uint32_t i) { return format_text("board%u", i + 1); }

  bool reaches(uint64_t publication) {
    return wait_until([&] {
      return newest_publication(server.err()) >= publication || !server.running();
    }) && server.running();
  }
  void ends_in_order() {
    CHECK_MESSAGE(server.wait_exit() == 0, server.err());
    for (Process& worker : workers) CHECK_MESSAGE(worker.wait_exit() == 0, worker.err());
    CHECK(no_process_left());
  }
  // Everybody's last words name the same model.
  void agrees() {
    const std::string model = last_model(server.err());
    CHECK(!model.empty());
    for (const Process& worker : workers) CHECK(last_model(worker.err()) == model);
  }
};

}  // namespace

TEST_SUITE("system/life") {
  TEST_CASE("a run of so many rounds ends by itself, with one model on all machines") {
    for (const char* pace : {"compat", "bsp", "asp", "ssp:3"}) {
      CAPTURE(pace);
      RunText run;
      run.pace = pace;
      Fleet fleet(run, {"--rounds", "20"});
      fleet.ends_in_order();
      fleet.agrees();
    }
  }
}
