// What batch normalisation has seen, pooled over batches, boards and rounds.
//
// Of each channel rows, mean and M2 (the sum of squared distances from the mean, divided by the
// values of the channel in one row: every row weighs alike in every layer). Pooled by the rule of
// Chan, Golub and LeVeque (1979), which loses nothing, in double and in the order given: the same
// bytes on every machine.
//
// The flat vector of a model holds means and variances in tensors of class kStatistic,
// [2][channels]. docs/decisions/0015 tells who pools what, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"

namespace paceline {

// Means and variances of a model.
size_t statistic_count(const ParameterLayout& layout);

// As an update carries them: for each statistic tensor in order the means, then the M2s.
struct Statistics {
  uint64_t rows = 0;  // 0: there are none
  std::vector<float> values;
  bool operator==(const Statistics&) const = default;
};

class StatisticsPool {
 public:
  StatisticsPool() = default;
  explicit StatisticsPool(const ParameterLayout& layout);

  // Whether the model has any.
  bool used() const { return !values_.empty(); }
  // Statistics from elsewhere, of at most `rows_max` rows. Errors: kCorrupt for another length,
  // values that are not finite or absurdly large, a negative M2.
  Status check(const Statistics& statistics, uint64_t rows_max) const;

  // Takes a batch's statistics out of its gradient (trainer.h), and leaves +0 there.
  void take_batch(uint64_t rows, std::span<float> gradient);
  // Checked ones.
  void add(const Statistics& statistics);
  // From now on what is in the pool counts as `rows_max` rows at most.
  void weigh_at_most(double rows_max);
  void clear();

  // The pool as an update carries it.
  Statistics statistics() const;
  // Writes means and variances into the model; nothing while the pool is empty.
  void publish(std::span<float> flat) const;

  void save(ByteWriter* out) const;
  // Errors: kCorrupt; the pool is then not to be used.
  Status load(ByteReader* in);

 private:
  struct Place {
    size_t offset = 0;  // of the means in the flat vector; the second statistics follow
    size_t channels = 0;
  };
  // of(place, channel) gives a channel's mean and M2.
  template <class Of>
  void merge(double rows, Of of);

  std::vector<Place> places_;
  std::vector<double> values_;  // ordered as in Statistics
  double rows_ = 0;
};

// A model's means and variances alone, in order; and back.
std::vector<float> published_statistics(const ParameterLayout& layout, std::span<const float> flat);
void set_published_statistics(const ParameterLayout& layout, std::span<const float> values,
                              std::span<float> flat);

}  // namespace paceline
