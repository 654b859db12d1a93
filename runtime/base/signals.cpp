#include "runtime/base/signals.h"

#include <csignal>
#include <ctime>
#include <stop_token>
#include <thread>

namespace paceline {

namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

struct StopSignals::State {
  std::jthread thread;
};

StopSignals::StopSignals(std::function<void(int)> on_stop) : state_(std::make_unique<State>()) {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  state_->thread = std::jthread([set, on_stop = std::move(on_stop)](std::stop_token stop) {
    int count = 0;
    while (!stop.stop_requested()) {
      const timespec pause{0, 100'000'000};
      if (sigtimedwait(&set, nullptr, &pause) > 0) on_stop(++count);
    }
  });
}

StopSignals::~StopSignals() = default;

}  // namespace paceline
