// Programs are killed, stopped, asked to leave and started again, in an order drawn from the seed.
// Whatever the order, nobody crashes, the run goes on, and it ends with one model on all machines.
#include <doctest/doctest.h>

#include <csignal>

#include "runtime/base/clock.h"
#include "runtime/base/random.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr TimeUs kChaosUs = from_ms(7'000);
constexpr size_t kWorkers = 4;

class Chaos {
 public:
  Chaos(const std::string& pace, uint64_t stream) : random_(seed(), stream) {
    run_.pace = pace;
    run_.checkpoint_ms = 50;
    run_.exchange_deadline_ms = 1'000;
    start_server("1000000", "127.0.0.1:0");
    for (size_t i = 0; i < kWorkers; ++i) {
      workers_.push_back(start_worker(i));
      stopped_.push_back(false);
    }
  }

  void rage() {
    const TimeUs end = monotonic_now_us() + kChaosUs;
    while (monotonic_now_us() < end) {
      strike();
      pass(300);
      everybody_is_well();
    }
  }

  // All are there again, the run goes on, and then it ends.
  void settle() {
    for (size_t i = 0; i < kWorkers; ++i) wake(i);
    const size_t known = server_[0].err().size();
    CHECK_MESSAGE(
        wait_until([&] { return checksums_of(server_[0].err().substr(known)).size() >= 10; }),
        tail_of(server_[0].err()));
    for (Process& worker : workers_) {
      const size_t seen = worker.err().size();
      CHECK_MESSAGE(worker.wait_err_after(seen, " checksum "), tail_of(worker.err()));
    }
    leaves_in_order(server_[0], SIGTERM);
    start_server("1", site_.address());
    CHECK_MESSAGE(server_[0].wait_exit() == 0, tail_of(server_[0].err()));
    const std::string model = last_model(server_[0].err());
    for (Process& worker : workers_) {
      CHECK_MESSAGE(worker.wait_exit() == 0, tail_of(worker.err()));
      CHECK_MESSAGE(last_model(worker.err()) == model, tail_of(worker.err()),
                    tail_of(server_[0].err()));
    }
    CHECK(no_process_left());
  }

 private:
  void start_server(const std::string& rounds, const std::string& address) {
    server_.clear();
    server_.push_back(
        site_.server(run_, {"--state", site_.file("state"), "--rounds", rounds}, address));
  }
  // Waits until it is where signals mean to leave in order.
  Process start_worker(size_t index) {
    const std::string name = "board" + std::to_string(index);
    const size_t known = file_text(site_.file(name + ".err")).size();
    Process worker = site_.worker(name, {"--step-ms", std::to_string(1 + index % 3)});
    CHECK_MESSAGE(worker.wait_err_after(known, "training rows"), tail_of(worker.err()));
    return worker;
  }

  // Lets up to `ms_max` pass.
  void pass(uint64_t ms_max) {
    wait_until([] { return false; }, static_cast<int>(random_.below(ms_max)));
  }

  void leaves_in_order(Process& process, int number) {
    process.signal(number);
    CHECK_MESSAGE(process.wait_exit() == 0, tail_of(process.err()));
  }

  void wake(size_t index) {
    if (!stopped_[index]) return;
    workers_[index].signal(SIGCONT);
    stopped_[index] = false;
  }

  void strike() {
    const size_t victim = random_.below(kWorkers);
    switch (random_.below(7)) {
      case 0:
      case 1:
        workers_[victim].kill_hard();
        stopped_[victim] = false;
        pass(1000);
        workers_[victim] = start_worker(victim);
        break;
      case 2:
        wake(victim);
        leaves_in_order(workers_[victim], random_.below(2) == 0 ? SIGINT : SIGTERM);
        workers_[victim] = start_worker(victim);
        break;
      case 3:
        if (!stopped_[victim]) workers_[victim].signal(SIGSTOP);
        stopped_[victim] = true;
        break;
      case 4:
        wake(victim);
        break;
      case 5:
        server_[0].kill_hard();
        pass(500);
        start_server("1000000", site_.address());
        break;
      default:
        leaves_in_order(server_[0], SIGTERM);
        start_server("1000000", site_.address());
    }
  }

  void everybody_is_well() {
    CHECK_MESSAGE(server_[0].running(), tail_of(server_[0].err()));
    for (Process& worker : workers_) CHECK_MESSAGE(worker.running(), tail_of(worker.err()));
  }

  Site site_;
  Random random_;
  RunText run_;
  std::vector<Process> server_;  // one
  std::vector<Process> workers_;
  std::vector<bool> stopped_;  // by SIGSTOP
};

}  // namespace

TEST_SUITE("system/chaos") {
  TEST_CASE("a run with rounds survives whatever befalls its programs") {
    Chaos chaos("compat", 1);
    chaos.rage();
    chaos.settle();
  }
  TEST_CASE("a run without rounds survives whatever befalls its programs") {
    Chaos chaos("asp", 2);
    chaos.rage();
    chaos.settle();
  }
}
