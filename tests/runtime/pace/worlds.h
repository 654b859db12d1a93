// Paces under the virtual clock of simulate/pace_world.h, for oracle and property tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "simulate/pace_world.h"

namespace paceline::test {

inline constexpr TimeUs kSecond = 1'000'000;
inline constexpr TimeUs kThousandSeconds = 1000 * kSecond;

// The three fleets of the oracle table.
inline const std::vector<TimeUs> kPersistent = {kSecond, kSecond, 2 * kSecond, 4 * kSecond};
inline const std::vector<TimeUs> kOneSlow = {kSecond, kSecond, kSecond, kSecond,
                                             kSecond, kSecond, kSecond, 3 * kSecond};
inline const std::vector<TimeUs> kEqual = {kSecond, kSecond, kSecond, kSecond};

inline std::unique_ptr<PaceWorld> world(const std::string& pace, std::vector<TimeUs> times) {
  PaceWorldOptions options;
  options.pace = pace;
  options.iteration_us = std::move(times);
  options.planned_us = kThousandSeconds;
  return PaceWorld::make(std::move(options)).value();
}

// Equal boards of which each iteration is five times as long with probability 0.1.
inline std::unique_ptr<PaceWorld> transient_world(const std::string& pace, uint64_t seed,
                                                  size_t workers = 4) {
  PaceWorldOptions options;
  options.pace = pace;
  options.iteration_us.assign(workers, kSecond);
  options.slow_share = 0.1;
  options.slow_factor = 5;
  options.seed = seed;
  options.planned_us = kThousandSeconds;
  return PaceWorld::make(std::move(options)).value();
}

inline PaceFigures figures(const std::string& pace, const std::vector<TimeUs>& times) {
  const std::unique_ptr<PaceWorld> fleet = world(pace, times);
  fleet->run(kThousandSeconds);
  return fleet->figures();
}

// Everything that happens, in order: two paces are one if these are equal.
inline std::vector<PaceEvent> events(PaceWorld& fleet, TimeUs until) {
  std::vector<PaceEvent> seen;
  fleet.set_observer([&](const PaceEvent& event) { seen.push_back(event); });
  fleet.run(until);
  fleet.set_observer(nullptr);
  return seen;
}

}  // namespace paceline::test
