#include "runtime/train/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/check.h"

namespace paceline {
namespace {

// Far beyond what normalisation can be of use for; squares and their sums stay finite in double,
// and a variance in float.
constexpr float kMeanMax = 0x1p48f;
constexpr double kVarianceMax = 0x1p96;
constexpr double kRowsMax = 0x1p52;

// Below 2^-90 is +0, as everywhere in a model.
float rounded(double value) {
  const float result = static_cast<float>(value);
  return std::fabs(result) < 0x1p-90f ? 0.0f : result;
}

}  // namespace

size_t statistic_count(const ParameterLayout& layout) {
  size_t count = 0;
  for (const TensorSpec& tensor : layout.tensors())
    if (tensor.tensor_class == TensorClass::kStatistic) count += static_cast<size_t>(tensor.count);
  return count;
}

StatisticsPool::StatisticsPool(const ParameterLayout& layout) {
  for (const TensorSpec& tensor : layout.tensors())
    if (tensor.tensor_class == TensorClass::kStatistic)
      places_.push_back(
          {static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count) / 2});
  values_.resize(statistic_count(layout));
}

Status StatisticsPool::check(const Statistics& statistics, uint64_t rows_max) const {
  if (statistics.rows == 0 && statistics.values.empty()) return {};
  if (statistics.values.size() != values_.size())
    return fail(Code::kCorrupt, "%zu statistics, the model has %zu", statistics.values.size(),
                values_.size());
  if (statistics.rows == 0 || statistics.rows > rows_max)
    return fail(Code::kCorrupt, "statistics of %llu rows, at most %llu were taken",
                static_cast<unsigned long long>(statistics.rows),
                static_cast<unsigned long long>(rows_max));
  const double squares_max = kVarianceMax * static_cast<double>(statistics.rows);
  const float* value = statistics.values.data();
  for (const Place& place : places_) {
    for (size_t i = 0; i < place.channels; ++i, ++value)
      if (!(std::fabs(*value) <= kMeanMax))
        return fail(Code::kCorrupt, "a mean of %g", static_cast<double>(*value));
    for (size_t i = 0; i < place.channels; ++i, ++value)
      if (!(*value >= 0 && static_cast<double>(*value) <= squares_max))
        return fail(Code::kCorrupt, "squares of %g", static_cast<double>(*value));
  }
  return {};
}

template <class Of>
void StatisticsPool::merge(double rows, Of of) {
  const double total = rows_ + rows;
  double* means = values_.data();
  for (const Place& place : places_) {
    double* squares = means + place.channels;
    for (size_t i = 0; i < place.channels; ++i) {
      const std::pair<double, double> other = of(place, i);
      const double apart = other.first - means[i];
      means[i] += apart * (rows / total);
      squares[i] += other.second + apart * apart * (rows_ * (rows / total));
    }
    means += 2 * place.channels;
  }
  rows_ = total;
}

void StatisticsPool::take_batch(uint64_t rows, std::span<float> gradient) {
  if (!used()) return;
  const auto count = static_cast<double>(rows);
  merge(count, [&](const Place& place, size_t i) {
    const double variance = static_cast<double>(gradient[place.offset + place.channels + i]);
    return std::pair(static_cast<double>(gradient[place.offset + i]), count * variance);
  });
  for (const Place& place : places_)
    std::ranges::fill(gradient.subspan(place.offset, 2 * place.channels), 0.0f);
}

void StatisticsPool::add(const Statistics& statistics) {
  if (statistics.rows == 0) return;
  PACELINE_CHECK(statistics.values.size() == values_.size());
  const float* next = statistics.values.data();
  const Place* of = places_.data();
  merge(static_cast<double>(statistics.rows), [&](const Place& place, size_t i) {
    if (&place != of) next += 2 * std::exchange(of, &place)->channels;
    return std::pair(static_cast<double>(next[i]), static_cast<double>(next[place.channels + i]));
  });
}

void StatisticsPool::weigh_at_most(double rows_max) {
  if (rows_ <= rows_max) return;
  const double factor = rows_max / rows_;
  double* squares = values_.data();
  for (const Place& place : places_) {
    squares += place.channels;
    for (size_t i = 0; i < place.channels; ++i) *squares++ *= factor;
  }
  rows_ = rows_max;
}

void StatisticsPool::clear() {
  std::ranges::fill(values_, 0.0);
  rows_ = 0;
}

Statistics StatisticsPool::statistics() const {
  Statistics statistics;
  if (rows_ == 0) return statistics;
  statistics.rows = static_cast<uint64_t>(rows_);
  for (const double value : values_) statistics.values.push_back(rounded(value));
  return statistics;
}

void StatisticsPool::publish(std::span<float> flat) const {
  if (rows_ == 0) return;
  const double* value = values_.data();
  for (const Place& place : places_)
    for (size_t i = 0; i < 2 * place.channels; ++i, ++value)
      flat[place.offset + i] = rounded(i < place.channels ? *value : *value / rows_);
}

void StatisticsPool::save(ByteWriter* out) const {
  if (values_.empty()) return;
  out->put(rows_);
  for (const double value : values_) out->put(value);
}

Status StatisticsPool::load(ByteReader* in) {
  if (values_.empty()) return {};
  PACELINE_ASSIGN(rows_, in->get<double>());
  if (!(rows_ >= 0 && rows_ <= kRowsMax))
    return fail(Code::kCorrupt, "statistics of %g rows", rows_);
  double* value = values_.data();
  for (const Place& place : places_)
    for (size_t i = 0; i < 2 * place.channels; ++i, ++value) {
      PACELINE_ASSIGN(*value, in->get<double>());
      const bool is_mean = i < place.channels;
      if (!(std::fabs(*value) <= kRowsMax * kVarianceMax) || (!is_mean && *value < 0))
        return fail(Code::kCorrupt, "a pooled statistic of %g", *value);
    }
  return {};
}

std::vector<float> published_statistics(const ParameterLayout& layout,
                                        std::span<const float> flat) {
  std::vector<float> values;
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.tensor_class != TensorClass::kStatistic) continue;
    const auto of_tensor =
        flat.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count));
    values.insert(values.end(), of_tensor.begin(), of_tensor.end());
  }
  return values;
}

void set_published_statistics(const ParameterLayout& layout, std::span<const float> values,
                              std::span<float> flat) {
  PACELINE_CHECK(values.size() == statistic_count(layout));
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.tensor_class != TensorClass::kStatistic) continue;
    const auto count = static_cast<size_t>(tensor.count);
    std::ranges::copy(values.first(count),
                      flat.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
    values = values.subspan(count);
  }
}

}  // namespace paceline
