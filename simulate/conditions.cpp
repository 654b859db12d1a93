#include "simulate/conditions.h"

#include <algorithm>

#include "runtime/data/portable_math.h"

namespace paceline {

namespace {

constexpr uint64_t kStepStream = 0x73746570;  // "step"
constexpr double kStepUsMax = 1e12;

}  // namespace

Result<LoopbackFaults> link_faults(const LinkPlan& plan) {
  LoopbackFaults faults;
  faults.delay_us = static_cast<TimeUs>(plan.delay_ms * 1e3);
  faults.jitter_us = static_cast<TimeUs>(plan.jitter_ms * 1e3);
  faults.request_loss = faults.reply_loss = plan.loss;
  faults.duplication = plan.duplication;
  faults.outages = plan.outages;
  if (!plan.rate.empty()) {
    PACELINE_ASSIGN(faults.link, parse_link(plan.rate));
  }
  return faults;
}

StepClock::StepClock(const SpeedPlan& plan, TimeUs planned, uint64_t seed, uint32_t worker)
    : plan_(plan),
      planned_(planned),
      key_(hash64(hash64(seed ^ kStepStream) + worker)),
      random_(seed, kStepStream + (uint64_t{worker} << 32)) {}

// Marsaglia's polar method.
double StepClock::normal() {
  while (true) {
    const double u = 2 * random_.unit() - 1;
    const double v = 2 * random_.unit() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * portable::square_root(-2 * portable::log(s) / s);
  }
}

double StepClock::disturbance(TimeUs now) const {
  double factor = 1;
  if (plan_.slow_share > 0) {
    // Time is cut into stretches of one slow-down each; where they begin differs by worker.
    const auto stretch_us = std::max<TimeUs>(1, static_cast<TimeUs>(plan_.slow_s * 1e6));
    const auto offset = static_cast<TimeUs>(key_ % static_cast<uint64_t>(stretch_us));
    const auto stretch = static_cast<uint64_t>((now + offset) / stretch_us);
    const double draw = static_cast<double>(hash64(key_ + stretch) >> 11) * 0x1p-53;
    if (draw < plan_.slow_share) factor *= plan_.slow_factor;
  }
  if (now >= planned_ / 3 && now < planned_ - planned_ / 3) factor *= plan_.middle_factor;
  if (plan_.day_s > 0) {
    const auto day_us = std::max<TimeUs>(1, static_cast<TimeUs>(plan_.day_s * 1e6));
    // A parabola from 0 at both ends of the day to 1 at noon: a sine but for 6 %.
    const double hour = static_cast<double>(now % day_us) / static_cast<double>(day_us);
    factor *= 1 + plan_.day_depth * 4 * hour * (1 - hour);
  }
  return factor;
}

TimeUs StepClock::step_us(TimeUs now) {
  double us = plan_.step_ms * 1e3 * disturbance(now);
  if (plan_.step_sigma > 0)
    us *= portable::exp(plan_.step_sigma * normal() - plan_.step_sigma * plan_.step_sigma / 2);
  return static_cast<TimeUs>(std::clamp(us, 1.0, kStepUsMax) + 0.5);
}

}  // namespace paceline
