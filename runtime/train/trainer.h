// Forward, backward and loss of one model on one compute backend, in memory that is planned once.
//
// Not thread-safe; one object per thread. After make() no call allocates. Results of one backend on
// one CPU are deterministic; the reference backend gives equal bytes everywhere.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/train/loss.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizer.h"

namespace paceline {

// What a batch's outputs are held against: a class for each row, or a number for each output.
class Targets {
 public:
  template <std::convertible_to<std::span<const int32_t>> Labels>
  Targets(const Labels& labels) : labels_(labels) {}
  template <std::convertible_to<std::span<const float>> Numbers>
  Targets(const Numbers& numbers) : numbers_(numbers) {}

  std::span<const int32_t> labels() const { return labels_; }
  std::span<const float> numbers() const { return numbers_; }

 private:
  std::span<const int32_t> labels_;
  std::span<const float> numbers_;
};

struct EvaluationCounts {
  uint64_t rows = 0;
  // Of numbers: the rows' share of variance that is explained, rows * (1 - mean squared error)
  // within 0 and rows. Targets have variance 1 by their scale, so a fleet's sum over its rows is
  // R^2.
  uint64_t correct = 0;
  // Sum over rows of round(loss * 2^16), each row's loss clamped to [0, 64): integers sum exactly
  // in any order.
  uint64_t loss_fixed16 = 0;
  uint64_t squares_fixed16 =
      0;  // of numbers, likewise: squared errors, which `correct` follows from
};

class Trainer {
 public:
  virtual ~Trainer() = default;

  // Mean loss over the batch and its gradient.
  //   parameters [layout.element_count()]
  //   features   [rows][input_features]
  //   targets    of 1 to batch_max() rows: labels < class_count, or output_count numbers a row
  //   where
  //              the model has no classes (checked: kInvalidArgument)
  //   gradient   [layout.element_count()], overwritten; pads +0. In the place of tensors of class
  //              kStatistic, which have none, it tells the batch's own statistics. Where rows are
  //              sparse only what this call touches is written, and what the last one touched
  //              becomes +0: hand in the same memory each time, at first +0. Elsewhere it is left
  //              as it is, and is not even read
  // Returns the mean loss. A non-finite loss or gradient is a result like any other.
  virtual Result<float> gradient(std::span<const float> parameters, std::span<const float> features,
                                 const Targets& targets, std::span<float> gradient) = 0;

  // Adds the batch's counts to `counts`. Same shapes and errors as gradient().
  virtual Status evaluate(std::span<const float> parameters, std::span<const float> features,
                          const Targets& targets, EvaluationCounts* counts) = 0;

  // The probability of each class for each row, or its numbers.
  //   features  [rows][input_features], 1 to batch_max() rows
  //   answers   [rows][output_count], overwritten; NaN where an output is not finite
  virtual Status predict(std::span<const float> parameters, std::span<const float> features,
                         std::span<float> answers) = 0;

  // What the last gradient() may have set, ascending and apart: the weights of its rows' features
  // where rows are sparse, and all behind them. Empty: everything.
  virtual std::span<const ElementRange> touched() const = 0;

  // What dropout draws in the next calls of gradient() follows from `key` and how many came since.
  virtual void seed_noise(uint64_t key) = 0;

  virtual size_t batch_max() const = 0;
  // Bytes of the arena: everything this object will ever use beside parameters, gradient and batch.
  virtual size_t planned_bytes() const = 0;
  virtual const char* backend_name() const = 0;
};

// backend  "auto" (the fastest that this CPU verifies), "reference", or a name of backends(): an
//          unknown or unusable one is an error, never a fallback.
// loss     its kind fits the model; what it adds for classes is of gradient() alone; class_weights
//          has class_count entries or none
Result<std::unique_ptr<Trainer>> make_trainer(const ModelSpec& spec, size_t batch_max,
                                              std::string_view backend,
                                              const LossOptions& loss = {});

// Names that make_trainer() takes on this machine, best first; "reference" is the last.
std::vector<std::string> backends();

}  // namespace paceline
