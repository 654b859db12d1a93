#include "runtime/train/net_plan.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace paceline {
namespace {

struct Life {
  uint64_t floats = 0;  // of a row
  uint32_t first = 0;
  uint32_t last = 0;
};

class Planner {
 public:
  Planner(const ModelSpec& spec, size_t batch_max, const GemmKernels* kernels)
      : spec_(spec), batch_max_(batch_max), kernels_(kernels) {}

  NetPlan plan() {
    list_stages();
    find_readers();
    place_outputs();
    place_gradients();
    place_scratch();
    plan_.memory.place();
    return std::move(plan_);
  }

 private:
  uint32_t stage_count() const { return static_cast<uint32_t>(plan_.stages.size()); }
  uint32_t backward_step(size_t stage) const {
    return 2 * stage_count() - static_cast<uint32_t>(stage);
  }
  size_t add(const Life& life) {
    return plan_.memory.add(batch_max_ * life.floats * sizeof(float), life.first, life.last);
  }
  // The only stage that reads what `stage` gives, if it may do so in place.
  const Stage* reader_in_place(size_t stage) const {
    if (readers_[stage].size() != 1) return nullptr;
    const Stage& reader = plan_.stages[readers_[stage][0]];
    return reader.type->in_place ? &reader : nullptr;
  }

  void list_stages();
  Stage stage_of(const LayerSpec& layer, size_t* tensor) const;
  void find_readers();
  void place_outputs();
  void place_gradients();
  void place_scratch();

  const ModelSpec& spec_;
  const size_t batch_max_;
  const GemmKernels* const kernels_;
  NetPlan plan_;
  std::vector<std::vector<size_t>> readers_;  // of each stage's output, ascending
};

Stage Planner::stage_of(const LayerSpec& layer, size_t* tensor) const {
  Stage stage;
  stage.spec = &layer;
  stage.index = plan_.stages.size();
  stage.type = find_layer_type(layer.type);
  PACELINE_CHECK(stage.type != nullptr);
  stage.output_features = static_cast<size_t>(feature_count(layer.output_shape));
  if (stage.type->append_tensors) {
    PACELINE_CHECK(*tensor + stage.type->tensor_count() <= spec_.layout.tensors().size());
    stage.weight = &spec_.layout.tensors()[(*tensor)++];
    stage.bias = &spec_.layout.tensors()[(*tensor)++];
    if (stage.type->has_statistics) stage.statistics = &spec_.layout.tensors()[(*tensor)++];
    stage.learns = layer.frozen != Frozen::kAll;
  }
  if (kernels_ && stage.type->scratch_floats)
    stage.scratch_floats = stage.type->scratch_floats(layer, *kernels_, batch_max_);
  else if (stage.type->work_floats)
    stage.scratch_floats = stage.type->work_floats(layer);
  return stage;
}

void Planner::list_stages() {
  // By LayerSpec::inputs: the stage that computes each value.
  std::vector<StageSource> values = {
      {kModelInput, static_cast<size_t>(spec_.input_features()), false}};
  size_t tensor = 0;
  for (const LayerSpec& layer : spec_.layers) {
    Stage stage = stage_of(layer, &tensor);
    for (const uint32_t value : layer.inputs) {
      PACELINE_CHECK(value < values.size());
      const StageSource& source = values[value];
      stage.sources.push_back(source);
      if (source.stage != kModelInput)
        stage.learns = stage.learns || plan_.stages[source.stage].learns;
    }
    PACELINE_CHECK(!stage.sources.empty());
    if (stage.type->forward == nullptr) {
      values.push_back(stage.sources[0]);
      continue;
    }
    values.push_back({plan_.stages.size(), stage.output_features, false});
    plan_.stages.push_back(std::move(stage));
  }
  PACELINE_CHECK(!plan_.stages.empty() && plan_.stages.back().learns);
}

void Planner::find_readers() {
  readers_.resize(plan_.stages.size());
  for (size_t i = plan_.stages.size(); i-- > 0;)
    for (StageSource& source : plan_.stages[i].sources) {
      if (source.stage == kModelInput) continue;
      std::vector<size_t>& readers = readers_[source.stage];
      source.adds = !readers.empty();
      readers.insert(readers.begin(), i);
    }
}

// A stage that works in place shares the buffer of the one that it reads.
void Planner::place_outputs() {
  const uint32_t n = stage_count();
  std::vector<Life> lives;
  std::vector<size_t> life_of(n, kNoBuffer);
  for (uint32_t i = 0; i < n; ++i) {
    const Stage& stage = plan_.stages[i];
    if (life_of[i] == kNoBuffer) {
      life_of[i] = lives.size();
      lives.push_back({stage.output_features, i, i});
    }
    uint32_t& last = lives[life_of[i]].last;
    if (i + 1 == n) last = std::max(last, n);
    if (stage.learns && stage.type->backward_reads_output) last = std::max(last, backward_step(i));
    for (const size_t reader : readers_[i]) {
      const Stage& taker = plan_.stages[reader];
      last = std::max(last, taker.learns && taker.type->backward_reads_input
                                ? backward_step(reader)
                                : static_cast<uint32_t>(reader));
    }
    if (const Stage* reader = reader_in_place(i); reader && !stage.type->backward_reads_output)
      life_of[static_cast<size_t>(reader->index)] = life_of[i];
  }
  std::vector<size_t> buffers;
  for (const Life& life : lives) buffers.push_back(add(life));
  for (uint32_t i = 0; i < n; ++i) plan_.stages[i].output = buffers[life_of[i]];
}

// Gradients by outputs; the loss leaves the last one's there. Those of a stage that works in place
// lie where its own output's do.
void Planner::place_gradients() {
  const uint32_t n = stage_count();
  std::vector<Life> lives = {{spec_.output_count, n, n + 1}};
  std::vector<size_t> life_of(n, kNoBuffer);
  life_of[n - 1] = 0;
  for (uint32_t i = n - 1; i-- > 0;) {
    if (!plan_.stages[i].learns) continue;
    if (const Stage* reader = reader_in_place(i)) {
      life_of[i] = life_of[static_cast<size_t>(reader->index)];
      lives[life_of[i]].last = backward_step(i);
      continue;
    }
    life_of[i] = lives.size();
    PACELINE_CHECK(!readers_[i].empty());
    lives.push_back(
        {plan_.stages[i].output_features, backward_step(readers_[i].back()), backward_step(i)});
  }
  plan_.judged = add(lives[0]);
  plan_.losses = add({1, n, n});
  std::vector<size_t> buffers = {plan_.judged};
  for (size_t i = 1; i < lives.size(); ++i) buffers.push_back(add(lives[i]));
  for (uint32_t i = 0; i < n; ++i)
    if (life_of[i] != kNoBuffer) plan_.stages[i].output_gradient = buffers[life_of[i]];
}

void Planner::place_scratch() {
  for (uint32_t i = 0; i < stage_count(); ++i) {
    Stage& stage = plan_.stages[i];
    const uint32_t backward = backward_step(i);
    const uint64_t bytes = stage.scratch_floats * sizeof(float);
    stage.forward_scratch = plan_.memory.add(bytes, i, i);
    if (!stage.learns) continue;
    stage.backward_scratch = plan_.memory.add(bytes, backward, backward);
    uint64_t added = 0;
    for (const StageSource& source : stage.sources)
      if (source.adds && plan_.stages[source.stage].learns)
        added = std::max<uint64_t>(added, source.features);
    if (added > 0) stage.addend = add({added, backward, backward});
  }
}

}  // namespace

NetPlan plan_net(const ModelSpec& spec, size_t batch_max, const GemmKernels* kernels) {
  return Planner(spec, batch_max, kernels).plan();
}

}  // namespace paceline
