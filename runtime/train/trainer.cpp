#include "runtime/train/trainer.h"

#include <algorithm>
#include <new>
#include <optional>

#include "runtime/base/check.h"
#include "runtime/base/nearest.h"
#include "runtime/base/random.h"
#include "runtime/train/gemm.h"
#include "runtime/train/layer.h"
#include "runtime/train/loss.h"
#include "runtime/train/memory_plan.h"

namespace paceline {
namespace {

constexpr size_t kBatchMax = 65536;
// A board's memory, not a desktop's: a larger plan is a mistake in the description.
constexpr uint64_t kArenaBytesMax = 1024ull * 1024 * 1024;
constexpr size_t kNoBuffer = SIZE_MAX;
constexpr uint64_t kNoiseStream = 0xD0;  // of no other use of a run's seed

struct AlignedDelete {
  void operator()(std::byte* bytes) const {
    ::operator delete (bytes, std::align_val_t{MemoryPlan::kAlignmentBytes});
  }
};
using Arena = std::unique_ptr<std::byte, AlignedDelete>;

// A layer that computes, and the buffers it touches: offsets in the arena after placing.
struct Stage {
  const LayerSpec* spec = nullptr;
  const LayerType* type = nullptr;
  uint64_t index = 0;
  const TensorSpec* weight = nullptr;
  const TensorSpec* bias = nullptr;
  size_t input_features = 0;
  size_t output_features = 0;
  uint64_t scratch_floats = 0;
  size_t output = kNoBuffer;
  size_t output_gradient = kNoBuffer;
  size_t forward_scratch = kNoBuffer;
  size_t backward_scratch = kNoBuffer;
};

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
      : spec_(spec), batch_max_(batch_max), kernels_(kernels), loss_(loss) {
    list_stages();
    plan_memory();
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
  void list_stages();
  void plan_memory();
  size_t arena_bytes() const { return static_cast<size_t>(plan_.total_bytes()); }
  size_t output_count() const { return spec_.output_count; }
  // The rows of the batch.
  Result<size_t> check_batch(std::span<const float> parameters, std::span<const float> features,
                             const Targets& targets) const;
  void judge(size_t batch, const Targets& targets, const LossOptions& loss);
  void count_numbers(size_t batch, EvaluationCounts* counts) const;
  void count_classes(size_t batch, std::span<const int32_t> labels, EvaluationCounts* counts) const;
  // `noise` is the batch's key; none to evaluate.
  void run_forward(std::span<const float> parameters, std::span<const float> features, size_t batch,
                   std::optional<uint64_t> noise = {});
  void run_backward(std::span<const float> parameters, std::span<const float> features,
                    size_t batch, uint64_t noise, std::span<float> gradient);
  void clear_touched(std::span<const float> features, std::span<float> gradient);
  void clear_pads(std::span<float> gradient) const;
  void clear_frozen(std::span<float> gradient) const;
  std::span<float> buffer(size_t index, uint64_t floats) const;

  const ModelSpec spec_;
  const size_t batch_max_;
  const GemmKernels* const kernels_;
  const LossOptions loss_;
  std::vector<Stage> stages_;
  size_t first_trained_ = 0;  // stages before it learn nothing and need no gradient
  MemoryPlan plan_;
  size_t judged_ = kNoBuffer;  // probabilities or errors, then the outputs' gradient
  size_t losses_ = kNoBuffer;
  Arena arena_;
  std::vector<ElementRange> touched_;  // of sparse rows
  Random noise_{0, kNoiseStream};
};

void NetTrainer::list_stages() {
  size_t tensor = 0;
  first_trained_ = SIZE_MAX;
  for (const LayerSpec& layer : spec_.layers) {
    Stage stage;
    stage.spec = &layer;
    stage.index = stages_.size();
    stage.type = find_layer_type(layer.type);
    PACELINE_CHECK(stage.type != nullptr);
    if (stage.type->forward == nullptr) continue;
    stage.input_features = static_cast<size_t>(feature_count(layer.input_shape));
    stage.output_features = static_cast<size_t>(feature_count(layer.output_shape));
    if (stage.type->append_tensors) {
      PACELINE_CHECK(tensor + 2 <= spec_.layout.tensors().size());
      stage.weight = &spec_.layout.tensors()[tensor++];
      stage.bias = &spec_.layout.tensors()[tensor++];
      if (layer.frozen != Frozen::kAll) first_trained_ = std::min(first_trained_, stages_.size());
    }
    if (kernels_ && stage.type->scratch_floats)
      stage.scratch_floats = stage.type->scratch_floats(layer, *kernels_, batch_max_);
    else if (stage.type->work_floats)
      stage.scratch_floats = stage.type->work_floats(layer);
    stages_.push_back(stage);
  }
  PACELINE_CHECK(first_trained_ < stages_.size());
  // One range for each value of a batch that is not 0, and one for the other layers.
  if (stages_[0].type->list_touched)
    touched_.reserve(batch_max_ * (stages_[0].input_features / 2) + 1);
}

// Steps of the plan, for n stages: stage i runs forward at i, the loss at n, stage i backward at 2n
// - i.
void NetTrainer::plan_memory() {
  const uint32_t n = static_cast<uint32_t>(stages_.size());
  const auto rows = [&](uint64_t floats_per_row) {
    return batch_max_ * floats_per_row * sizeof(float);
  };
  // Activations. A stage that works in place shares the buffer of the one before it.
  for (uint32_t i = 0; i < n;) {
    uint32_t end = i + 1;
    while (end < n && stages_[end].type->in_place && !stages_[end - 1].type->backward_reads_output)
      ++end;
    uint32_t last = end;
    for (uint32_t user = i; user < end; ++user)
      if (user >= first_trained_ && stages_[user].type->backward_reads_output)
        last = std::max(last, 2 * n - user);
    if (end < n && end >= first_trained_ && stages_[end].type->backward_reads_input)
      last = std::max(last, 2 * n - end);
    const size_t shared = plan_.add(rows(stages_[i].output_features), i, last);
    for (; i < end; ++i) stages_[i].output = shared;
  }
  judged_ = plan_.add(rows(spec_.output_count), n, n + 1);
  losses_ = plan_.add(rows(1), n, n);
  // Gradients by outputs: the loss leaves the last one there.
  stages_[n - 1].output_gradient = judged_;
  for (uint32_t i = n - 1; i > first_trained_; --i) {
    if (stages_[i].type->in_place) {
      stages_[i - 1].output_gradient = stages_[i].output_gradient;
      continue;
    }
    uint32_t first_user = i - 1;
    while (first_user > first_trained_ && stages_[first_user].type->in_place) --first_user;
    stages_[i - 1].output_gradient =
        plan_.add(rows(stages_[i].input_features), 2 * n - i, 2 * n - first_user);
  }
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t bytes = stages_[i].scratch_floats * sizeof(float);
    stages_[i].forward_scratch = plan_.add(bytes, i, i);
    if (i >= first_trained_) stages_[i].backward_scratch = plan_.add(bytes, 2 * n - i, 2 * n - i);
  }
  plan_.place();
}

Status NetTrainer::allocate() {
  if (plan_.total_bytes() > kArenaBytesMax)
    return fail(Code::kResourceExhausted,
                "training needs %llu MiB, at most %llu MiB; take a batch smaller than %zu",
                static_cast<unsigned long long>(plan_.total_bytes() >> 20),
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
  return {reinterpret_cast<float*>(arena_.get() + plan_.offset(index)),
          static_cast<size_t>(floats)};
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
                             size_t batch, std::optional<uint64_t> noise) {
  std::span<const float> input = features;
  for (const Stage& stage : stages_) {
    ForwardPass pass;
    if (noise) pass.noise = noise_of(stage, *noise);
    pass.batch = batch;
    pass.weight = tensor_of(parameters, stage.weight);
    pass.bias = tensor_of(parameters, stage.bias);
    pass.input = input;
    pass.output = buffer(stage.output, batch * stage.output_features);
    pass.scratch = buffer(stage.forward_scratch, stage.scratch_floats);
    if (kernels_ && stage.type->gemm_forward)
      stage.type->gemm_forward(*stage.spec, *kernels_, pass);
    else
      stage.type->forward(*stage.spec, pass);
    input = pass.output;
  }
}

void NetTrainer::run_backward(std::span<const float> parameters, std::span<const float> features,
                              size_t batch, uint64_t noise, std::span<float> gradient) {
  for (size_t i = stages_.size(); i-- > first_trained_;) {
    const Stage& stage = stages_[i];
    BackwardPass pass;
    pass.noise = noise_of(stage, noise);
    pass.batch = batch;
    pass.weight = tensor_of(parameters, stage.weight);
    pass.bias = tensor_of(parameters, stage.bias);
    pass.input = i > 0 ? buffer(stages_[i - 1].output, batch * stage.input_features) : features;
    pass.output = buffer(stage.output, batch * stage.output_features);
    pass.output_gradient = buffer(stage.output_gradient, batch * stage.output_features);
    if (i > first_trained_)
      pass.input_gradient = buffer(stages_[i - 1].output_gradient, batch * stage.input_features);
    pass.weight_gradient = tensor_of(gradient, stage.weight);
    pass.bias_gradient = tensor_of(gradient, stage.bias);
    pass.scratch = buffer(stage.backward_scratch, stage.scratch_floats);
    if (kernels_ && stage.type->gemm_backward)
      stage.type->gemm_backward(*stage.spec, *kernels_, pass);
    else
      stage.type->backward(*stage.spec, pass);
  }
}

// Sets to +0 what the last batch touched and what this one will.
void NetTrainer::clear_touched(std::span<const float> features, std::span<float> gradient) {
  const Stage& first = stages_[0];
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
  for (const Stage& stage : stages_) {
    if (stage.spec->frozen == Frozen::kNone) continue;
    std::ranges::fill(tensor_of(gradient, stage.weight), 0.0f);
    if (stage.spec->frozen == Frozen::kAll)
      std::ranges::fill(tensor_of(gradient, stage.bias), 0.0f);
  }
}

// Leaves probabilities or errors in its buffer, and the rows' losses in theirs.
void NetTrainer::judge(size_t batch, const Targets& targets, const LossOptions& loss) {
  const std::span<const float> outputs = buffer(stages_.back().output, batch * output_count());
  const std::span<float> judged = buffer(judged_, outputs.size());
  std::copy(outputs.begin(), outputs.end(), judged.begin());
  const std::span<float> losses = buffer(losses_, batch);
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
  run_forward(parameters, features, batch, noise);
  judge(batch, targets, loss_);
  double sum = 0.0;
  for (float loss : buffer(losses_, batch)) sum += static_cast<double>(loss);
  const std::span<float> judged = buffer(judged_, batch * output_count());
  if (loss_.kind == LossKind::kSoftmax)
    softmax_gradient(output_count(), targets.labels(), judged, loss_);
  else
    regression_gradient(loss_, judged);
  clear_touched(features, gradient);
  run_backward(parameters, features, batch, noise, gradient);
  clear_frozen(gradient);
  clear_pads(gradient);
  return static_cast<float>(sum / static_cast<double>(batch));
}

void NetTrainer::count_numbers(size_t batch, EvaluationCounts* counts) const {
  const std::span<const float> errors = buffer(judged_, batch * output_count());
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
  const std::span<const float> outputs = buffer(stages_.back().output, batch * output_count());
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
  for (const float loss : buffer(losses_, batch)) counts->loss_fixed16 += loss_fixed16(loss);
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
  const std::span<float> outputs = buffer(stages_.back().output, batch * width);
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
