// What both prices of an exchange, codecs' and paces', take for granted of local steps.
#pragma once

#include <cmath>

namespace paceline {

// What tau local steps in a row bring, in steps that nobody delays: boards drift apart meanwhile.
// tau^(5/8), by square roots, which are the same everywhere (docs/decisions/0010).
inline double progress_of_steps(double tau) {
  const double half = std::sqrt(tau);
  return half * std::sqrt(std::sqrt(half));
}

}  // namespace paceline
