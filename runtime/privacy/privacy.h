// What a run promises its boards: how long an update may be, how much noise it gets, and what all
// of them together tell of a board's rows.
//
//   [privacy]
//   clip = 0.05         # an update is shortened to this L2 norm, in weight units
//   noise = 0.8         # sd of the noise on each of its values, in clips
//   delta = 1e-5        # how likely the promise may fail
//   epsilon_max = 50    # a board leaves before it has spent more; 0: it only counts
//
// Pure. docs/privacy.md tells what is protected and what is not.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace paceline {

struct PrivacySpec {
  double clip = 0;
  double noise = 0;
  double delta = 1e-5;
  double epsilon_max = 0;
};

// None without the table. Errors: kInvalidArgument.
Result<std::optional<PrivacySpec>> parse_privacy(const Config& config);

// The epsilon that so many updates of one board have spent, at the run's delta: what they tell
// whether it had learned anything at all. Who asks which of two sets of rows it has, asks what is
// up to two clips apart, and gets noise of half as many: spent_epsilon() at noise / 2.
//
// Every update has noise of its own and all boards take part, so nothing is subsampled. Renyi
// differential privacy (Mironov, CSF 2017) of a Gaussian, n alpha / (2 noise^2) at order alpha; to
// epsilon and delta by Canonne, Kamath, Steinke (NeurIPS 2020), proposition 12; the best of a grid
// of orders, which is at most 0.1 % above the best of all.
double spent_epsilon(const PrivacySpec& privacy, uint64_t updates);

}  // namespace paceline
