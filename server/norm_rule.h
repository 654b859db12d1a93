// Whether an update is about as long as updates are. One that is not may be a broken board's or a
// liar's: it is shortened, and refused where it is far too long.
//
// Pure. Lengths are L2 norms of decoded updates per local step. docs/reliability.md gives the rule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/wire/messages.h"

namespace paceline {

inline constexpr double kNormClip = 4;  // times the usual length: what is longer is shortened to it
inline constexpr double kNormRefuse = 10;  // what is longer is refused
// Nothing honest is so long, not even at the start: refused whatever else holds.
inline constexpr double kNormAbsurd = kNormClip * 4096;

// What a worker's accepted updates were like.
struct NormHistory {
  static constexpr size_t kWindow = 20;  // exchanges
  static constexpr size_t kEnough = 5;

  void remember(double norm, uint32_t exchange_tau);
  // The median at this tau; 0 while there are too few.
  double usual(uint32_t exchange_tau) const;

  std::vector<double> norms;  // the oldest first
  uint32_t tau = 0;
};

// The median over a round's contributors; 0 where they are too few to tell who is odd.
double usual_of_round(std::span<const double> norms);

struct NormVerdict {
  float clip = 1;  // factor on the update
  bool refused = false;
  double times_usual = 0;
};
// `only_clip`: just after a change of what updates are made by; kNormAbsurd holds all the same.
NormVerdict judge_norm(double norm, double usual_of_round, double usual_of_worker, bool only_clip);

// Tells when what updates are made by has last changed: generation, tau, codec or rate.
class NormSettling {
 public:
  // True for five rounds after a change, and at the start.
  bool settling(uint64_t generation, const Directive& directive, uint64_t round);

 private:
  uint64_t generation_ = 0;
  uint32_t tau_ = 0;
  uint8_t codec_ = 0;
  float rate_ = 0;
  uint64_t until_round_ = 0;
};

}  // namespace paceline
