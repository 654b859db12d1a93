// The demo's fleet in the simulator: Fashion-MNIST, label-skewed shards, boards of speeds 1:1:2:4,
// links with a rate limit. Minutes of a real run take seconds, and the same seed gives the same
// run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "simulate/fleet.h"

namespace paceline::test {

struct FashionOptions {
  std::string pace = "compat";
  std::string freq = "trend";
  CodecId codec_up = CodecId::kS1r;
  CodecId codec_down = CodecId::kS1r;
  bool codec_auto = false;  // both ways
  double rate = 0.05;
  double alpha = 0.5;
  double link_bits_per_s = 100e6;
  double seconds = 60;  // planned, in virtual time
  uint64_t seed = 1;
};

struct FashionPoint {
  double seconds = 0;
  uint64_t bytes = 0;  // payloads and messages of all workers, both ways
  double accuracy = 0;
};

struct FashionRun {
  std::vector<FashionPoint> curve;  // of the control set, about four points a second
  double final_accuracy = 0;        // mean of the last five points
  uint64_t rounds = 0;
  // First point whose mean with the two before it reaches `accuracy`; seconds < 0: never.
  FashionPoint reached(double accuracy) const;
};

bool fashion_data_is_there();
// The 60,000 training images, bytes read as 0 to 1; the rows from the 55,000th on are the control
// set.
const Dataset& fashion_training_set();
Dataset fashion_control_set();
inline constexpr size_t kFashionTrainingRows = 55'000;
FashionRun run_fashion(const FashionOptions& options);

}  // namespace paceline::test
