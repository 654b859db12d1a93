// How the updates of a round become one where some of them may be lies.
//
// Pure; one object holds scratch space and no state. Sums are taken in the order of the payloads,
// so the same updates give the same bytes. docs/reliability.md says what each rule holds against
// and costs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/quant/codec.h"

namespace paceline {

enum class AggregationRule : uint8_t {
  kMean,     // by weight
  kMedian,   // of each coordinate (Yin et al., 2018)
  kTrimmed,  // mean of each coordinate without its extremes (the same)
  kKrum,     // mean of those whose neighbours are nearest (multi-Krum; Blanchard et al., 2017)
  kClip,     // mean of what is not far from it (centred clipping; Karimireddy et al., 2021)
};

struct AggregationChoice {
  AggregationRule rule = AggregationRule::kMean;
  uint32_t faulty = 1;  // updates that kTrimmed cuts off at either end, and kKrum leaves out

  // Signs and entries say too little of a coordinate to compare it.
  bool compares_coordinates() const {
    return rule == AggregationRule::kMedian || rule == AggregationRule::kTrimmed;
  }
};

// "mean", "median", "trimmed:FAULTY", "krum:FAULTY" or "clip". Errors: kInvalidArgument.
Result<AggregationChoice> parse_aggregation(std::string_view text);

class Aggregator {
 public:
  explicit Aggregator(AggregationChoice choice) : choice_(choice) {}
  const AggregationChoice& choice() const { return choice_; }

  // Writes `sum` and returns its divisor: the quotient is the round's update.
  //   payloads  chunk by chunk, and each chunk's in worker-id order: of `workers` > 0 each
  // Medians and trimmed means count every update alike; Krum and clipping take its weight, times
  // which bound of the norm rule it has.
  float aggregate(const ParameterLayout& layout, std::span<const WeightedPayload> payloads,
                  size_t workers, uint64_t seed, std::span<float> sum);
  // By the last aggregate(): places of the workers that Krum took nothing of.
  std::span<const size_t> left_out() const { return left_out_; }

 private:
  struct Round;
  // rows_[worker] becomes chunk `chunk` of its update, less `centre` where there is one.
  void decode(const Round& round, uint32_t chunk, std::span<const float> centre);
  void sort_coordinates(const Round& round, std::span<float> sum);
  float nearest_mean(const Round& round, std::span<float> sum);
  void clipped_mean(const Round& round, std::span<float> sum);

  AggregationChoice choice_;
  std::vector<float> whole_;              // one update; +0 between uses
  std::vector<std::vector<float>> rows_;  // of each worker: one chunk
  std::vector<WeightedPayload> chosen_;
  std::vector<size_t> left_out_;
};

}  // namespace paceline
