// Workers of three CPU families in one run: after every publication all of them hold the same bits.
#include <doctest/doctest.h>

#include <sys/utsname.h>

#include <cstdlib>

#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

// The words to start a worker with that was built for a board: through an emulator, unless this
// machine is one.
std::vector<std::string> board_program(const char* variable, const char* emulator) {
  const char* program = std::getenv(variable);
  if (program == nullptr) return {};
  utsname machine{};
  uname(&machine);
  if (std::string_view(machine.machine) == "aarch64") return {program};
  return {emulator, program};
}

}  // namespace

TEST_SUITE("system/mixed fleet") {
  TEST_CASE("amd64, arm64 and armhf hold the same model after each of 20 rounds") {
    const std::vector<std::string> arm64 = board_program("PACELINE_WORKER_ARM64", "qemu-aarch64");
    const std::vector<std::string> armhf = board_program("PACELINE_WORKER_ARMHF", "qemu-arm");
    if (arm64.empty() || armhf.empty()) {
      std::printf("skipped: PACELINE_WORKER_ARM64 and PACELINE_WORKER_ARMHF name no workers\n");
      return;
    }
    for (const std::string codec : {"s1r", "q8"}) {
      CAPTURE(codec);
      Site site;
      RunText run;
      run.codec_up = run.codec_down = codec;
      run.freq = "fixed:2";
      run.hidden = 1024;  // wide enough that the first layer is rotated
      run.min_workers = 3;
      run.heartbeat_ms = 2'000;
      run.exchange_deadline_ms = 60'000;
      Process server = site.server(run, {"--rounds", "20"});
      std::vector<Process> workers;
      workers.push_back(site.worker("amd64"));
      workers.push_back(site.worker_by(arm64, "arm64"));
      workers.push_back(site.worker_by(armhf, "armhf"));
      CHECK_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
      for (Process& worker : workers) CHECK_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));
      CHECK(no_process_left());

      const std::map<uint64_t, std::string> published = checksums_of(server.err());
      CHECK(published.size() >= 20);
      for (const Process& worker : workers) {
        std::map<uint64_t, std::string> held = checksums_of(worker.err());
        CHECK(held[1] == checksums_of(workers[0].err())[1]);
        for (const auto& entry : published)
          CHECK_MESSAGE(held[entry.first] == entry.second, "publication ", entry.first);
      }
    }
  }
}
