#include <cmath>

#include "runtime/base/check.h"
#include "runtime/content/content.h"

namespace paceline {

namespace {

constexpr double kGapWide = 0.01;  // of a tensor's norm
constexpr uint64_t kGapWidePublications = 10;
constexpr double kGapClosed = 0.003;

// Sums of squares over whole blocks: float32 within a lane of a block, double beyond.
struct Squares {
  double gap = 0;
  double master = 0;
};

void add_block(const float* master, const float* published, Squares* sum) {
  constexpr size_t kLanes = 16;
  float gap[kLanes] = {}, size[kLanes] = {};
  for (size_t i = 0; i < kBlockElements; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float difference = master[i + lane] - published[i + lane];
      gap[lane] += difference * difference;
      size[lane] += master[i + lane] * master[i + lane];
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum->gap += static_cast<double>(gap[lane]);
    sum->master += static_cast<double>(size[lane]);
  }
}

}  // namespace

Gap measure_gap(const ParameterLayout& layout, std::span<const float> master,
                std::span<const float> published) {
  PACELINE_CHECK(master.size() == layout.element_count());
  PACELINE_CHECK(published.size() == layout.element_count());
  Gap gap;
  double all = 0;
  for (size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
    const TensorSpec& spec = layout.tensors()[tensor];
    Squares sum;
    for (uint64_t at = spec.offset; at < spec.offset + spec.count; at += kBlockElements)
      add_block(master.data() + at, published.data() + at, &sum);
    all += sum.gap;
    const double share = sum.gap > 0 ? std::sqrt(sum.gap / sum.master) : 0;
    if (share > gap.worst_share) {
      gap.worst_share = share;
      gap.worst_tensor = tensor;
    }
  }
  gap.norm = std::sqrt(all);
  return gap;
}

void GapWatch::observe(const Gap& gap, double lost_share, uint64_t publication) {
  if (gap.worst_share > kGapWide && lost_share > kLosingShare) {
    if (above_since_ == 0) above_since_ = publication;
    if (publication - above_since_ >= kGapWidePublications) closing_ = true;
  } else {
    above_since_ = 0;
  }
  if (gap.worst_share < kGapClosed) closing_ = false;
}

}  // namespace paceline
