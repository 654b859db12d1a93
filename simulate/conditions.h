// What a simulated board and its link are like: how long a step takes, and when.
//
// All values are means over a long run or facts of the plan; what happens at a time follows from
// (plan, seed, worker) alone, so two runs of one seed meet the same boards whatever they exchange.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/net/loopback.h"

namespace paceline {

struct SpeedPlan {
  double step_ms = 5;     // of one mini-batch on an undisturbed board
  double step_sigma = 0;  // lognormal: of the logarithm; the mean stays step_ms
  // Slow-downs that pass: so much of the time, each so long, steps take so many times as long.
  double slow_share = 0;
  double slow_factor = 5;
  double slow_s = 10;
  double middle_factor = 1;  // interference: in the middle third of the run
  // Heat by day: steps take up to 1 + day_depth times as long, most in the middle of a day.
  double day_s = 0;
  double day_depth = 0;
};

struct LinkPlan {
  std::string rate;  // as parse_link() takes it; empty: no limit
  double delay_ms = 0.2;
  double jitter_ms = 0;  // lets messages overtake each other
  double loss = 0;       // of requests, and of replies
  double duplication = 0;
  std::vector<LoopbackFaults::Outage> outages = {};
};

// Errors: kInvalidArgument for the rate.
Result<LoopbackFaults> link_faults(const LinkPlan& plan);

class StepClock {
 public:
  // `planned` is the length of the run.
  StepClock(const SpeedPlan& plan, TimeUs planned, uint64_t seed, uint32_t worker);
  // What a mini-batch takes that begins at `now`; at least 1 us. Each call draws anew.
  TimeUs step_us(TimeUs now);

 private:
  double disturbance(TimeUs now) const;
  double normal();

  SpeedPlan plan_;
  TimeUs planned_;
  uint64_t key_;  // of this worker's slow-downs
  Random random_;
};

}  // namespace paceline
