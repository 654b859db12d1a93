// A fleet as the choice of codecs sees it: boards on links of a given rate, codecs that keep back
// what they kept back on real updates.
#pragma once

#include <vector>

#include "runtime/content/content.h"

namespace paceline::test {

// 784-128-10: one wide tensor.
inline PayloadSizes demo_sizes() {
  return {.wide_elements = 100'352, .narrow_elements = 1792, .chunk_count = 1};
}

inline double lost_norm(CodecId codec) {
  switch (codec) {
    case CodecId::kQ8:
      return 0.006;
    case CodecId::kQ4:
    case CodecId::kQ4r:
      return 0.1;
    case CodecId::kTk5:
      return 0.75;
    case CodecId::kTk1:
      return 0.95;
    case CodecId::kRaw32:
      return 0;
    case CodecId::kBf16:
      return 0.001;
    case CodecId::kS1:
    case CodecId::kS1r:
      return 0.603;
  }
  return 0;
}

template <class Observe>
void observe_all(Observe observe) {
  for (const CodecInfo& codec : codecs()) observe(codec.id, CodingNorms{0, 1, lost_norm(codec.id)});
}

// Steps of 20 ms, links of the rates given in Mbit/s, 1 ms a trip.
struct FleetOnLinks {
  explicit FleetOnLinks(std::vector<double> mbit_per_s) {
    for (const double rate : mbit_per_s) workers.push_back({20'000, {1000, 8 / rate, 8 / rate}});
    facts.workers = workers;
    facts.tau = 2;
    facts.follows_link = true;
    facts.publication = 1000;
  }
  FleetOnLinks(const FleetOnLinks&) = delete;
  FleetOnLinks& operator=(const FleetOnLinks&) = delete;

  std::vector<WorkerCost> workers;
  ContentFacts facts;
};

}  // namespace paceline::test
