#include "runtime/train/trainer.h"

#include <algorithm>
#include <new>
#include <optional>

#include "runtime/base/check.h"
#include "runtime/base/nearest.h"
#include "runtime/base/random.h"
#include "runtime/train/gemm.h"
#include "runtime/train/loops.h"
#include "runtime/train/loss.h"
#include "runtime/train/net_plan.h"

namespace paceline {
namespace {

constexpr size_t kBatchMax = 65536;
// A board's memory, not a desktop's: a larger plan is a mistake in the description.
constexpr uint64_t kArenaBytesMax = 1024ull * 1024 * 1024;
constexpr uint64_t kNoiseStream = 0xD0;  // of no other use of a run's seed

struct AlignedDelete {
  void operator()(std::byte* bytes) const {
    ::operator delete (bytes, std::align_val_t{MemoryPlan::kAlignmentBytes});
  }
};
using Arena = std::unique_ptr<std::byte, AlignedDelete>;

std::span<const float> tensor_of(std::span<const float> flat, const TensorSpec* tensor) {
  return tensor
             ? flat.subspan(static_cast<size_t>(tensor->offset), static_cast<size_t>(tensor->count))
             : std::span<const float>{};
}
std::span<float> tensor_of(std::span<float> flat, const TensorSpec* tensor) {
  return tensor
             ? flat.subspan(static_cast<size_t>(tensor->offset), static_cast<size_t>(tensor->count))
             : std::span<float>{};
}

// Layers of one net draw different numbers.
uint64_t noise_of(const Stage& stage, uint64_t batch_noise) {
  return hash64(batch_noise + stage.index);
}

class NetTrainer final : public Trainer {
 public:
  // `kernels` is null for the reference.
  NetTrainer(const ModelSpec& spec, size_t batch_max, const GemmKernels* kernels,
             const LossOptions& loss)
      : spec_(spec),
        batch_max_(batch_max),
        kernels_(kernels),
        loss_(loss),
        plan_(plan_net(spec_, batch_max, kernels)) {
    // One range for each value of a batch that is not 0, and one for the other layers.
    if (const Stage& first = plan_.stages[0]; first.type->list_touched)
      touched_.reserve(batch_max_ * (first.sources[0].features / 2) + 1);
  }
  // Once, before use. Errors: kResourceExhausted.
  Status allocate();

  Result<float> gradient(std::span<const float> parameters, std::span<const float> features,
                         const Targets& targets, std::span<float> gradient) override;
  Status evaluate(std::span<const float> parameters, std::span<const float> features,
                  const Targets& targets, EvaluationCounts* counts) override;
  Status predict(std::span<const float> parameters, std::span<const float> features,
                 std::span<float> answers) override;

  std::span<const ElementRange> touched() const override { return touched_; }
  void seed_noise(uint64_t key) override { noise_ = Random(key, kNoiseStream); }
  size_t batch_max() const override { return batch_max_; }
  size_t planned_bytes() const override {
    return arena_bytes() + touched_.capacity() * sizeof(ElementRange);
  }
  const char* backend_name() const override { return kernels_ ? kernels_->name : "reference"; }

 private:
  size_t arena_bytes() const { return static_cast<size_t>(plan_.memory.total_bytes()); }
  size_t output_count() const { return spec_.output_count; }
  // The rows of the batch.
  Result<size_t> check_batch(std::span<const float> parameters, std::span<const float> features,
                             const Targets& targets) const;
  void judge(size_t batch, const Targets& targets, const LossOptions& loss);
  void count_numbers(size_t batch, EvaluationCounts* counts) const;
  void count_classes(size_t batch, std::span<const int32_t> labels, EvaluationCounts* counts) const;
  // To evaluate `noise`, the batch's key, is none and `gradient`, for its statistics, empty.
  void run_forward(std::span<const float> parameters, std::span<const float> features, size_t batch,
                   std::optional<uint64_t> noise = {}, std::span<float> gradient = {});
  void run_backward(std::span<const float> parameters, std::span<const float> features,
                    size_t batch, uint64_t noise, std::span<float> gradient);
  void clear_touched(std::span<const float> features, std::span<float> gradient);
  void clear_pads(std::span<float> gradient) const;
  void clear_frozen(std::span<float> gradient) const;
  std::span<float> buffer(size_t index, uint64_t floats) const;
  std::span<const float> value_of(const StageSource& source, std::span<const float> features,
                                  size_t batch) const;
  // Empty where nobody wants it.
  std::span<float> gradient_of(const StageSource& source, size_t batch) const;

  const ModelSpec spec_;
  const size_t batch_max_;
  const GemmKernels* const kernels_;
  const LossOptions loss_;
  const NetPlan plan_;
  Arena arena_;
  std::vector<ElementRange> touched_;  // of sparse rows
  Random noise_{0, kNoiseStream};
};

Status NetTrainer::allocate() {
  if (plan_.memory.total_bytes() > kArenaBytesMax)
    return fail(Code::kResourceExhausted,
                "training needs %llu MiB, at most %llu MiB; take a batch smaller than %zu",
                static_cast<unsigned long long>(plan_.memory.total_bytes() >> 20),
                static_cast<unsigned long long>(kArenaBytesMax >> 20), batch_max_);
  void* bytes =
      ::operator new (arena_bytes(), std::align_val_t{MemoryPlan::kAlignmentBytes}, std::nothrow);
  if (!bytes)
    return fail(Code::kResourceExhausted,
                "no memory for the %zu bytes that training needs; take a batch smaller than %zu",
                arena_bytes(), batch_max_);
  arena_.reset(static_cast<std::byte*>(bytes));
  // Touches every page now, so that memory which is not there is noticed before the first step.
  std::fill_n(arena_.get(), arena_bytes(), std::byte{0});
  return {};
}

std::span<float> NetTrainer::buffer(size_t index, uint64_t floats) const {
  return {reinterpret_cast<float*>(arena_.get() + plan_.memory.offset(index)),
          static_cast<size_t>(floats)};
}

std::span<const float> NetTrainer::value_of(const StageSource& source,
                                            std::span<const float> features, size_t batch) const {
  if (source.stage == kModelInput) return features;
  return buffer(plan_.stages[source.stage].output, batch * source.features);
}

std::span<float> NetTrainer::gradient_of(const StageSource& source, size_t batch) const {
  if (source.stage == kModelInput || !plan_.stages[source.stage].learns) return {};
  return buffer(plan_.stages[source.stage].output_gradient, batch * source.features);
}

Result<size_t> NetTrainer::check_batch(std::span<const float> parameters,
                                       std::span<const float> features,
                                       const Targets& targets) const {
  PACELINE_CHECK(parameters.size() == spec_.layout.element_count());
  const bool classes = spec_.class_count > 0;
  const size_t rows = classes ? targets.labels().size() : targets.numbers().size() / output_count();
  if (rows == 0 || rows > batch_max_)
    return fail(Code::kInvalidArgument, "a batch of %zu rows, must have 1 to %zu", rows,
                batch_max_);
  if (!classes && targets.numbers().size() != rows * output_count())
    return fail(Code::kInvalidArgument, "%zu numbers are no rows of %zu", targets.numbers().size(),
                output_count());
  if (features.size() != rows * spec_.input_features())
    return fail(Code::kInvalidArgument, "%zu labels need %zu x %llu features, got %zu", rows, rows,
                static_cast<unsigned long long>(spec_.input_features()), features.size());
  for (size_t row = 0; classes && row < rows; ++row)
    if (const int32_t label = targets.labels()[row];
        label < 0 || static_cast<uint32_t>(label) >= spec_.class_count)
      return fail(Code::kInvalidArgument, "row %zu of the batch: label %d, must be 0 to %u", row,
                  label, spec_.class_count - 1);
  return rows;
}

void NetTrainer::run_forward(std::span<const float> parameters, std::span<const float> features,
                             size_t batch, std::optional<uint64_t> noise,
                             std::span<float> gradient) {
  for (const Stage& stage : plan_.stages) {
    ForwardPass pass;
    if (noise) pass.noise = noise_of(stage, *noise);
    pass.batch = batch;
    pass.weight = tensor_of(parameters, stage.weight);
    pass.bias = tensor_of(parameters, stage.bias);
    pass.statistics = tensor_of(parameters, stage.statistics);
    if (!gradient.empty()) pass.batch_statistics = tensor_of(gradient, stage.statistics);
    pass.output = buffer(stage.output, batch * stage.output_features);
    pass.scratch = buffer(stage.forward_scratch, stage.scratch_floats);
    for (const StageSource& source : stage.sources) {
      pass.input = value_of(source, features, batch);
      if (kernels_ && stage.type->gemm_forward)
        stage.type->gemm_forward(*stage.spec, *kernels_, pass);
      else
        stage.type->forward(*stage.spec, pass);
      pass.features_before += source.features;
    }
  }
}

void NetTrainer::run_backward(std::span<const float> parameters, std::span<const float> features,
                              size_t batch, uint64_t noise, std::span<float> gradient) {
  for (size_t i = plan_.stages.size(); i-- > 0;) {
    const Stage& stage = plan_.stages[i];
    if (!stage.learns) continue;
    BackwardPass pass;
    pass.noise = noise_of(stage, noise);
    pass.batch = batch;
    pass.weight = tensor_of(parameters, stage.weight);
    pass.bias = tensor_of(parameters, stage.bias);
    pass.output = buffer(stage.output, batch * stage.output_features);
    pass.output_gradient = buffer(stage.output_gradient, batch * stage.output_features);
    pass.weight_gradient = tensor_of(gradient, stage.weight);
    pass.bias_gradient = tensor_of(gradient, stage.bias);
    pass.batch_statistics = tensor_of(gradient, stage.statistics);
    pass.scratch = buffer(stage.backward_scratch, stage.scratch_floats);
    for (const StageSource& source : stage.sources) {
      pass.input = value_of(source, features, batch);
      const std::span<float> wanted = gradient_of(source, batch);
      const bool adds = source.adds && !wanted.empty();
      pass.input_gradient = adds ? buffer(stage.addend, wanted.size()) : wanted;
      if (kernels_ && stage.type->gemm_backward)
        stage.type->gemm_backward(*stage.spec, *kernels_, pass);
      else
        stage.type->backward(*stage.spec, pass);
      if (adds) add_scaled(1.0f, pass.input_gradient.data(), wanted.data(), wanted.size());
      pass.features_before += source.features;
    }
  }
}

// Sets to +0 what the last batch touched and what this one will.
void NetTrainer::clear_touched(std::span<const float> features, std::span<float> gradient) {
  const Stage& first = plan_.stages[0];
  if (!first.type->list_touched) return;
  const auto clear = [&] {
    for (const ElementRange& range : touched_)
      std::ranges::fill(gradient.subspan(range.begin, range.end - range.begin), 0.0f);
  };
  clear();
  touched_.clear();
  first.type->list_touched(*first.spec, features, &touched_);
  std::ranges::sort(touched_, {}, &ElementRange::begin);
  size_t count = 0;
  for (const ElementRange& range : touched_) {
    if (count > 0 && touched_[count - 1].end >= range.begin)
      touched_[count - 1].end = range.end;
    else
      touched_[count++] = range;
  }
  touched_.resize(count);
  clear();
  touched_.push_back({static_cast<size_t>(first.bias->offset), gradient.size()});
}

void NetTrainer::clear_pads(std::span<float> gradient) const {
  for (const TensorSpec& tensor : spec_.layout.tensors()) {
    const auto end = static_cast<size_t>(tensor.offset + tensor.count);
    const size_t pads = (kBlockElements - end % kBlockElements) % kBlockElements;
    std::fill_n(gradient.begin() + static_cast<std::ptrdiff_t>(end), pads, 0.0f);
  }
}

void NetTrainer::clear_frozen(std::span<float> gradient) const {
  for (const Stage& stage : plan_.stages) {
    if (stage.spec->frozen == Frozen::kNone) continue;
    std::ranges::fill(tensor_of(gradient, stage.weight), 0.0f);
    if (stage.spec->frozen == Frozen::kAll)
      std::ranges::fill(tensor_of(gradient, stage.bias), 0.0f);
  }
}

// Leaves probabilities or errors in its buffer, and the rows' losses in theirs.
void NetTrainer::judge(size_t batch, const Targets& targets, const LossOptions& loss) {
  const std::span<const float> outputs = buffer(plan_.stages.back().output, batch * output_count());
  const std::span<float> judged = buffer(plan_.judged, outputs.size());
  std::copy(outputs.begin(), outputs.end(), judged.begin());
  const std::span<float> losses = buffer(plan_.losses, batch);
  if (loss.kind == LossKind::kSoftmax)
    softmax_cross_entropy(output_count(), targets.labels(), judged, losses, loss);
  else
    regression_loss(loss, targets.numbers(), judged, losses);
}

Result<float> NetTrainer::gradient(std::span<const float> parameters,
                                   std::span<const float> features, const Targets& targets,
                                   std::span<float> gradient) {
  PACELINE_ASSIGN(const size_t batch, check_batch(parameters, features, targets));
  PACELINE_CHECK(gradient.size() == spec_.layout.element_count());
  const uint64_t noise = noise_.next();
  clear_touched(features, gradient);
  run_forward(parameters, features, batch, noise, gradient);
  judge(batch, targets, loss_);
  double sum = 0.0;
  for (float loss : buffer(plan_.losses, batch)) sum += static_cast<double>(loss);
  const std::span<float> judged = buffer(plan_.judged, batch * output_count());
  if (loss_.kind == LossKind::kSoftmax)
    softmax_gradient(output_count(), targets.labels(), judged, loss_);
  else
    regression_gradient(loss_, judged);
  run_backward(parameters, features, batch, noise, gradient);
  clear_frozen(gradient);
  clear_pads(gradient);
  return static_cast<float>(sum / static_cast<double>(batch));
}

void NetTrainer::count_numbers(size_t batch, EvaluationCounts* counts) const {
  const std::span<const float> errors = buffer(plan_.judged, batch * output_count());
  for (size_t row = 0; row < batch; ++row) {
    float squares = 0.0f;
    for (const float error : errors.subspan(row * output_count(), output_count()))
      squares += error * error;
    counts->squares_fixed16 += loss_fixed16(squares / static_cast<float>(output_count()));
  }
  const uint64_t variance = (counts->rows + batch) << 16;
  counts->correct = variance > counts->squares_fixed16
                        ? (variance - counts->squares_fixed16 + (1 << 15)) >> 16
                        : 0;
}

void NetTrainer::count_classes(size_t batch, std::span<const int32_t> labels,
                               EvaluationCounts* counts) const {
  const std::span<const float> outputs = buffer(plan_.stages.back().output, batch * output_count());
  for (size_t row = 0; row < batch; ++row)
    counts->correct += first_largest(outputs.subspan(row * output_count(), output_count())) ==
                       static_cast<size_t>(labels[row]);
}

Status NetTrainer::evaluate(std::span<const float> parameters, std::span<const float> features,
                            const Targets& targets, EvaluationCounts* counts) {
  PACELINE_ASSIGN(const size_t batch, check_batch(parameters, features, targets));
  run_forward(parameters, features, batch);
  LossOptions plain;
  plain.kind = loss_.kind;
  plain.huber_delta = loss_.huber_delta;
  judge(batch, targets, plain);
  for (const float loss : buffer(plan_.losses, batch)) counts->loss_fixed16 += loss_fixed16(loss);
  if (spec_.class_count > 0)
    count_classes(batch, targets.labels(), counts);
  else
    count_numbers(batch, counts);
  counts->rows += batch;
  return {};
}

Status NetTrainer::predict(std::span<const float> parameters, std::span<const float> features,
                           std::span<float> answers) {
  PACELINE_CHECK(parameters.size() == spec_.layout.element_count());
  const size_t width = output_count();
  const size_t batch = answers.size() / width;
  if (batch == 0 || batch > batch_max_ || batch * width != answers.size() ||
      features.size() != batch * spec_.input_features())
    return fail(Code::kInvalidArgument, "%zu answers and %zu features are no batch of rows",
                answers.size(), features.size());
  run_forward(parameters, features, batch);
  const std::span<float> outputs = buffer(plan_.stages.back().output, batch * width);
  std::copy(outputs.begin(), outputs.end(), answers.begin());
  for (size_t row = 0; row < batch && spec_.class_count > 0; ++row) {
    const int32_t any_label = 0;  // for a loss that nobody asks for
    float loss = 0;
    softmax_cross_entropy(width, {&any_label, 1}, answers.subspan(row * width, width), {&loss, 1});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Trainer>> make_trainer(const ModelSpec& spec, size_t batch_max,
                                              std::string_view backend, const LossOptions& loss) {
  PACELINE_CHECK(loss.class_weights.empty() || loss.class_weights.size() == spec.class_count);
  if ((loss.kind == LossKind::kSoftmax) != (spec.class_count > 0))
    return fail(Code::kInvalidArgument, "the model gives %s, loss %s is of %s",
                spec.class_count > 0 ? "classes" : "numbers",
                std::string(loss_names()[static_cast<size_t>(loss.kind)]).c_str(),
                spec.class_count > 0 ? "numbers" : "classes");
  if (batch_max == 0 || batch_max > kBatchMax)
    return fail(Code::kInvalidArgument, "a batch of %zu rows, must be 1 to %zu", batch_max,
                kBatchMax);
  const std::span<const GemmKernels* const> sets = usable_gemm_kernels();
  const GemmKernels* kernels = nullptr;
  if (backend == "auto") {
    if (!sets.empty()) kernels = sets.front();
  } else if (backend != "reference") {
    for (const GemmKernels* set : sets)
      if (backend == set->name) kernels = set;
    if (!kernels) {
      const std::vector<std::string> names = backends();
      std::vector<std::string_view> known = {"auto"};
      known.insert(known.end(), names.begin(), names.end());
      return fail(Code::kUnsupported, "backend '%.*s' is unknown or not usable on this machine%s",
                  static_cast<int>(backend.size()), backend.data(),
                  suggest_name(backend, known).c_str());
    }
  }
  auto trainer = std::make_unique<NetTrainer>(spec, batch_max, kernels, loss);
  PACELINE_TRY(trainer->allocate());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

std::vector<std::string> backends() {
  std::vector<std::string> names;
  for (const GemmKernels* set : usable_gemm_kernels()) names.emplace_back(set->name);
  names.emplace_back("reference");
  return names;
}

}  // namespace paceline
