#include "server/round_comparison.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"

namespace paceline {

namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double ratio(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, -1.0, 1.0) : 0;
}

}  // namespace

double agreement_before_signs(double agreement) {
  // Taylor's series of sin(pi/2 x) up to x^9: within 4e-6 on -1 to 1.
  const double x = std::clamp(agreement, -1.0, 1.0);
  const double s = x * x;
  return x *
         (1.5707963267948966 +
          s * (-0.6459640975062463 + s * (0.07969262624616705 + s * (-0.004681754135318689 +
                                                                     s * 0.00016044118478735982))));
}

void RoundComparison::decode(const std::vector<Bytes>& chunks, std::vector<float>* into,
                             bool* signs) const {
  into->assign(static_cast<size_t>(layout_->element_count()), 0.0f);
  for (uint32_t i = 0; i < chunks.size(); ++i) {
    const Result<PayloadView> view = verify_payload(*layout_, i, chunks[i]);
    PACELINE_CHECK(view.has_value());
    *signs = *signs && (view->codec() == CodecId::kS1 || view->codec() == CodecId::kS1r);
    add_payload(*layout_, *view, seed_, *into);
  }
}

void RoundComparison::add(uint32_t worker_id, double weight, const std::vector<Bytes>& chunks) {
  decode(chunks, &update_, &signs_);
  const double square = dot(update_, update_);
  const double length = std::sqrt(square);
  ++workers_;
  weights_ += weight;
  lengths_ += weight * length;
  squares_ += weight * square;
  weighted_squares_ += weight * weight * square;
  std::vector<Bytes>& last = last_[worker_id];
  if (!last.empty()) {
    decode(last, &before_, &signs_);
    turns_ += weight * weight * dot(update_, before_);
    turn_lengths_ += weight * weight * length * std::sqrt(dot(before_, before_));
  }
  last = chunks;
}

RoundFacts RoundComparison::finish(std::span<const float> sum, float divisor) {
  RoundFacts facts;
  facts.workers = workers_;
  const double sum_square = dot(sum, sum);
  if (workers_ > 0 && divisor > 0 && std::isfinite(sum_square)) {
    facts.cross = ratio(sum_square - weighted_squares_, lengths_ * lengths_ - weighted_squares_);
    facts.self = std::max(ratio(turns_, turn_lengths_), 0.0);
    if (signs_) {
      facts.cross = agreement_before_signs(facts.cross);
      facts.self = agreement_before_signs(facts.self);
    }
    const double mean_square = sum_square / weights_ / weights_;
    facts.mean_norm = std::sqrt(sum_square) / static_cast<double>(divisor);
    facts.spread = std::sqrt(std::max(squares_ / weights_ - mean_square, 0.0));
    std::vector<float> mean(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) mean[i] = sum[i] / divisor;
    if (!mean_before_.empty()) {
      double square = 0;
      for (size_t i = 0; i < mean.size(); ++i) {
        const double turn = static_cast<double>(mean[i]) - static_cast<double>(mean_before_[i]);
        square += turn * turn;
      }
      facts.turn = std::sqrt(square);
    }
    mean_before_ = std::move(mean);
  }
  signs_ = true;
  workers_ = 0;
  weights_ = lengths_ = squares_ = weighted_squares_ = turns_ = turn_lengths_ = 0;
  return facts;
}

}  // namespace paceline
