// A network inside one process, under a virtual clock: seeded delay, loss, duplication, reordering
// and a rate limit. The simulator and the contract tests run the real cores over it.
//
// Nothing moves by itself: advance_to() sets the clock, receive() returns what is due and never
// waits (its deadline is ignored). The same seed and the same calls give the same deliveries.
// Single thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/transport.h"

namespace paceline {

struct LoopbackFaults {
  TimeUs delay_us = 0;      // each way
  TimeUs jitter_us = 0;     // uniform, added to the delay; lets messages overtake each other
  double request_loss = 0;  // probabilities, 0 to 1
  double reply_loss = 0;
  double duplication = 0;  // of requests: the copy arrives after another delay
  LinkLimit link = {};     // of each channel
  struct Outage {
    TimeUs from, to;
  };
  std::vector<Outage> outages = {};  // what is sent meanwhile, or would arrive, is lost
};

class LoopbackNetwork {
 public:
  virtual ~LoopbackNetwork() = default;
  virtual std::unique_ptr<Listener> listen() = 0;  // once
  virtual std::unique_ptr<Channel> dial(const std::string& name) = 0;
  // One with a link of its own, which set_faults() does not change.
  virtual std::unique_ptr<Channel> dial(const std::string& name, const LoopbackFaults& own) = 0;
  virtual void set_faults(const LoopbackFaults& faults) = 0;
  virtual void advance_to(TimeUs now) = 0;
  virtual TimeUs now() const = 0;
  // Time of the next delivery or time-out, kNever if there is none.
  virtual TimeUs next_due() const = 0;
};

std::unique_ptr<LoopbackNetwork> make_loopback(uint64_t seed, const LoopbackFaults& faults);

}  // namespace paceline
