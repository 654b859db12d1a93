#include "runtime/train/training.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/config.h"
#include "runtime/base/nearest.h"
#include "runtime/train/layer.h"
#include "runtime/train/statistics.h"

namespace paceline {
namespace {

Status read_kind(ConfigSection& section, OptimizerKind* kind) {
  const std::span<const std::string_view> names = optimizer_names();
  std::string name(names[0]);
  section.read("optimizer", &name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return fail(Code::kInvalidArgument, "%s: unknown optimizer '%s'%s",
                section.place_of("optimizer").c_str(), name.c_str(),
                suggest_name(name, names).c_str());
  *kind = static_cast<OptimizerKind>(found - names.begin());
  return {};
}

// A key that nothing would read is a misunderstanding.
Status refuse_idle_keys(ConfigSection& section, OptimizerKind kind) {
  const bool adam = kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamw;
  struct Idle {
    const char* key;
    bool idle;
    const char* reason;
  };
  const Idle keys[] = {
      {"momentum", adam, "give beta1 instead"},
      {"beta1", !adam, "give momentum instead, or optimizer = \"adam\""},
      {"beta2", !is_adaptive(kind) || kind == OptimizerKind::kAdagrad, "leave it out"},
      {"epsilon", !is_adaptive(kind), "leave it out"}};
  for (const Idle& key : keys)
    if (key.idle && section.has(key.key))
      return fail(Code::kInvalidArgument, "%s: optimizer %s has no '%s'; %s",
                  section.place_of(key.key).c_str(),
                  std::string(optimizer_names()[static_cast<size_t>(kind)]).c_str(), key.key,
                  key.reason);
  return {};
}

Status read_optimizer(ConfigSection& section, TrainingSpec* training) {
  OptimizerOptions& options = training->optimizer;
  PACELINE_TRY(read_kind(section, &options.kind));
  PACELINE_TRY(refuse_idle_keys(section, options.kind));
  double beta2 = 0.999, epsilon = 1e-8, clip = 0;
  double weight_decay = options.kind == OptimizerKind::kAdamw ? 0.01 : 0;
  if (options.kind == OptimizerKind::kAdagrad) training->momentum = 0;
  section.read("momentum", &training->momentum, 0, 0.9999);
  section.read("beta1", &training->momentum, 0, 0.9999);
  section.read("beta2", &beta2, 0.5, 0.9999);
  section.read("epsilon", &epsilon, 1e-12, 1);
  section.read("weight_decay", &weight_decay, 0, 1);
  section.read("clip", &clip, 0, 1e9);
  options.beta2 = static_cast<float>(beta2);
  options.epsilon = static_cast<float>(epsilon);
  options.weight_decay = static_cast<float>(weight_decay);
  options.clip = static_cast<float>(clip);
  return {};
}

// Classes and numbers have losses of their own.
Status read_loss_kind(ConfigSection& section, const ModelSpec& model, LossOptions* loss) {
  const std::span<const std::string_view> names = loss_names();
  std::string name(names[0]);
  section.read("loss", &name);
  const auto found = std::ranges::find(names, std::string_view(name));
  if (found == names.end())
    return fail(Code::kInvalidArgument, "%s: unknown loss '%s'%s", section.place_of("loss").c_str(),
                name.c_str(), suggest_name(name, names).c_str());
  loss->kind = static_cast<LossKind>(found - names.begin());
  const bool classes = loss->kind == LossKind::kSoftmax;
  if (classes != (model.class_count > 0))
    return fail(Code::kInvalidArgument,
                classes ? "%s: the model gives numbers, so it needs loss = \"mse\" or \"huber\""
                        : "%s: loss %s is of numbers; give model.outputs in place of model.classes",
                section.place_of("loss").c_str(), name.c_str());
  struct Idle {
    const char* key;
    bool idle;
  };
  for (const Idle& key : {Idle{"huber_delta", loss->kind != LossKind::kHuber},
                          {"label_smoothing", !classes},
                          {"class_weights", !classes}})
    if (key.idle && section.has(key.key))
      return fail(Code::kInvalidArgument, "%s: loss %s has no '%s'; leave it out",
                  section.place_of(key.key).c_str(), name.c_str(), key.key);
  return {};
}

Status read_loss(ConfigSection& section, const ModelSpec& model, LossOptions* loss) {
  PACELINE_TRY(read_loss_kind(section, model, loss));
  double smoothing = 0, delta = 1;
  std::vector<double> weights;
  section.read("huber_delta", &delta, 1e-3, 1e3);
  section.read("label_smoothing", &smoothing, 0, 0.5);
  section.read("class_weights", &weights, 0, 1000);
  if (!weights.empty() && weights.size() != model.class_count)
    return fail(Code::kInvalidArgument, "%s: %zu class_weights for %u classes",
                section.place_of("class_weights").c_str(), weights.size(), model.class_count);
  loss->huber_delta = static_cast<float>(delta);
  loss->smoothing = static_cast<float>(smoothing);
  for (const double weight : weights) loss->class_weights.push_back(static_cast<float>(weight));
  return {};
}

// Of one row everything is its own mean.
Status check_batch(ConfigSection& section, const RunSpec& run) {
  if (run.training.batch > 1 || statistic_count(run.model.layout) == 0) return {};
  return fail(Code::kInvalidArgument, "%s: batch_norm needs batches of two rows at least",
              section.place_of("batch").c_str());
}

// The server multiplies every parameter by `keep`.
Status check_keep(ConfigSection& section, const RunSpec& run) {
  for (const LayerSpec& layer : run.model.layers)
    if (layer.frozen != Frozen::kNone && run.training.keep < 1)
      return fail(Code::kInvalidArgument,
                  "%s: keep %g would shrink layer '%s', which is frozen; use weight_decay",
                  section.place_of("keep").c_str(), run.training.keep, layer.name.c_str());
  return {};
}

// What a batch_norm layer says of a board's rows is pooled exactly, without noise.
Status check_private(const Config& config, const RunSpec& run) {
  if (!run.privacy || statistic_count(run.model.layout) == 0) return {};
  return fail(Code::kInvalidArgument,
              "%s: batch_norm sends means and spreads of a board's rows as they are; take "
              "group_norm or layer_norm, or leave [privacy] out",
              config.section("privacy").place_of("clip").c_str());
}

OptimizerOptions optimizer_of(const TrainingSpec& training) {
  OptimizerOptions options = training.optimizer;
  options.beta1 = static_cast<float>(training.momentum);
  return options;
}

// Sparse rows touch few weights, and what is not touched has to stay where it is.
Status check_sparse(ConfigSection& section, const RunSpec& run) {
  if (run.model.sparse_entries() == 0) return {};
  if (run.training.proximal > 0)
    return fail(Code::kInvalidArgument,
                "%s: sparse rows touch few weights in a step, and proximal would move all; leave "
                "it out",
                section.place_of("proximal").c_str());
  if (optimizer_of(run.training).keeps_untouched()) return {};
  return fail(Code::kInvalidArgument,
              "%s: sparse rows touch few weights in a step, and momentum, weight_decay and the "
              "averages of adam and rmsprop would move all; give momentum = 0 and optimizer = "
              "\"sgd\" or \"adagrad\" (keep < 1 decays, too, and at the server)",
              section.place_of("momentum").c_str());
}

}  // namespace

Result<RunSpec> parse_run(std::string_view toml) {
  RunSpec run;
  PACELINE_ASSIGN(run.model, parse_model(toml));
  PACELINE_ASSIGN(const Config config, Config::parse(toml, "run"));
  TrainingSpec& training = run.training;
  ConfigSection section = config.section("training");
  section.read("batch", &training.batch, 1, 65'536);
  section.read("rate", &training.rate, 1e-9, 100);
  PACELINE_TRY(read_optimizer(section, &training));
  section.read("keep", &training.keep, 0.5, 1);
  section.read("proximal", &training.proximal, 0, 1000);
  section.read("seed", &training.seed, 0, INT64_MAX);
  PACELINE_TRY(read_loss(section, run.model, &training.loss));
  PACELINE_TRY(section.finish());
  PACELINE_TRY(check_keep(section, run));
  PACELINE_TRY(check_sparse(section, run));
  PACELINE_TRY(check_batch(section, run));
  PACELINE_ASSIGN(run.privacy, parse_privacy(config));
  PACELINE_TRY(check_private(config, run));
  return run;
}

namespace {

// Of each tensor, what of its layer stays as it started.
std::vector<Frozen> frozen_of_tensors(const ModelSpec& model) {
  std::vector<Frozen> frozen;
  for (const LayerSpec& layer : model.layers)
    frozen.insert(frozen.end(), find_layer_type(layer.type)->tensor_count(), layer.frozen);
  PACELINE_CHECK(frozen.size() == model.layout.tensors().size());
  return frozen;
}

ElementRange range_of(const TensorSpec& tensor) {
  return {static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.offset + tensor.count)};
}

}  // namespace

std::vector<ElementRange> trained_elements(const ModelSpec& model) {
  std::vector<ElementRange> trained;
  const std::vector<Frozen> frozen = frozen_of_tensors(model);
  const std::span<const TensorSpec> tensors = model.layout.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool bias = tensors[i].tensor_class == TensorClass::kBias;
    if (tensors[i].tensor_class != TensorClass::kStatistic &&
        (frozen[i] == Frozen::kNone || (bias && frozen[i] == Frozen::kWeights)))
      trained.push_back(range_of(tensors[i]));
  }
  return trained;
}

Optimizer make_optimizer(const RunSpec& run) {
  std::vector<ElementRange> weights;
  const std::vector<Frozen> frozen = frozen_of_tensors(run.model);
  const std::span<const TensorSpec> tensors = run.model.layout.tensors();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].tensor_class == TensorClass::kWeight && frozen[i] == Frozen::kNone)
      weights.push_back(range_of(tensors[i]));
  return Optimizer(optimizer_of(run.training),
                   static_cast<size_t>(run.model.layout.element_count()), weights);
}

}  // namespace paceline
