// Compares the updates of a round with each other and with those of the round before, for frequency
// policies that act on it (RoundFacts in runtime/freq/freq.h).
//
// Costs two decodings of every update, and keeps each worker's last one in its encoded form.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/freq/freq.h"
#include "runtime/quant/codec.h"

namespace paceline {

class RoundComparison {
 public:
  RoundComparison(const ParameterLayout& layout, uint64_t seed) : layout_(&layout), seed_(seed) {}

  // One update of the round; `weight` is the one that it has in the sum.
  void add(uint32_t worker_id, double weight, const std::vector<Bytes>& chunks);
  // After the sum of those that were added. Fills what updates say: workers, cross, self,
  // mean_norm, spread and turn.
  //   sum  [element_count] of weight x update; divided by `divisor` it is the mean
  RoundFacts finish(std::span<const float> sum, float divisor);

 private:
  void decode(const std::vector<Bytes>& chunks, std::vector<float>* into, bool* signs) const;

  const ParameterLayout* layout_;
  uint64_t seed_;
  std::map<uint32_t, std::vector<Bytes>> last_;  // by worker
  std::vector<float> update_, before_;
  std::vector<float> mean_before_;  // of the last round; empty: there was none
  bool signs_ = true;               // all updates of the round are coded in signs
  // Over this round's updates u of weight p, and u' of the round before.
  uint32_t workers_ = 0;
  double weights_ = 0;           // p
  double lengths_ = 0;           // p |u|
  double squares_ = 0;           // p |u|^2
  double weighted_squares_ = 0;  // p^2 |u|^2
  double turns_ = 0;             // p^2 u.u'
  double turn_lengths_ = 0;      // p^2 |u| |u'|
};

// What the agreement of two vectors was before each was coded in signs: their angle is preserved on
// average, sin(pi/2 x) of what the signs say (a polynomial: the same on every machine).
double agreement_before_signs(double agreement);

}  // namespace paceline
