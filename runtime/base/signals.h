// SIGINT and SIGTERM as a call on a thread of its own, so that what is done there is not limited to
// what a signal handler may do.
#pragma once

#include <functional>
#include <memory>

namespace paceline {

class StopSignals {
 public:
  // Blocks both signals in this thread and in every thread made from it afterwards, so make it
  // first. `on_stop` is called once per signal, with how many have come so far (1, 2, ...).
  explicit StopSignals(std::function<void(int count)> on_stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
