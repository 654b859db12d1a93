#include "tests/runtime/worker/worker_desk.h"

#include "tests/runtime/privacy/seeded_bytes.h"

namespace paceline::test {

namespace {

std::string run_text(const DeskSettings& settings) {
  return format_text(
      "[model]\ninput = [%u]\nclasses = %u\n%s[[layer]]\ntype = \"dense\"\nunits = %u\n"
      "[training]\nbatch = %u\nrate = %.17g\nmomentum = %.17g\nproximal = %.17g\nseed = 3\n"
      "%s%s",
      settings.inputs, settings.units, settings.layers.c_str(), settings.units, settings.batch,
      settings.rate, settings.momentum, settings.proximal,
      settings.privacy.empty() ? "" : "[privacy]\n", settings.privacy.c_str());
}

}  // namespace

WorkerDesk::WorkerDesk(DeskSettings settings)
    : settings_(settings), run_text_(run_text(settings)), run_(parse_run(run_text_).value()) {
  model.assign(layout().element_count(), 0.0f);
  init_parameters(run_.model, 3, model);
  WorkerOptions options;
  options.name = "desk";
  options.build = "by hand";
  options.training_rows = settings_.training_rows;
  options.held_out_rows = settings_.held_out_rows;
  options.feature_count = settings_.inputs;
  options.class_count = settings_.units;
  options.epsilon_max = settings_.epsilon_max;
  options.noise_bytes = seeded_bytes(settings_.noise_seed);
  core_ = std::make_unique<WorkerCore>(std::move(options),
                                       [this](const std::string& text) -> Result<LocalRun> {
                                         LocalRun run;
                                         PACELINE_ASSIGN(run.spec, parse_run(text));
                                         auto trainer = std::make_unique<PullTrainer>(layout());
                                         trainer_ = trainer.get();
                                         run.trainer = std::move(trainer);
                                         return run;
                                       });
}

void WorkerDesk::collect() {
  for (WorkerCore::Outgoing& out : core_->take_outgoing()) {
    ++counts_[out.lane];
    requests_[out.lane] = std::move(out);
  }
}

void WorkerDesk::reply(Lane lane, Message message) {
  PACELINE_CHECK(requests_.count(lane) == 1);
  requests_.erase(lane);
  core_->on_reply(lane, {77, std::move(message)}, now);
  collect();
}

void WorkerDesk::work(int units) {
  for (int i = 0; i < units; ++i) {
    now += 1000;
    core_->work(now);
    collect();
  }
}

void WorkerDesk::fail(Lane lane) {
  requests_.erase(lane);
  core_->on_failure(lane, Status(Code::kTimeout, "no answer"), now);
  collect();
}

void WorkerDesk::pass_timer() {
  PACELINE_CHECK(core_->next_timer() != kNever);
  now = core_->next_timer();
  core_->on_timer(now);
  collect();
}

void WorkerDesk::leave() {
  core_->leave(now);
  collect();
}

Welcome WorkerDesk::welcome(Directive directive) const {
  Welcome welcome;
  welcome.session = 77;
  welcome.protocol = kProtocol;
  welcome.generation = generation;
  welcome.publication = publication;
  welcome.checksum = model_checksum(model);
  welcome.round = round;
  welcome.seed = 3;
  welcome.heartbeat_ms = 1000;
  welcome.exchange_timeout_ms = 30'000;
  welcome.run = run_text_;
  welcome.directive = std::move(directive);
  return welcome;
}

Granted WorkerDesk::granted(Directive directive) const {
  Granted granted;
  granted.sequence = asked<Exchange>()->sequence;
  granted.generation = generation;
  granted.publication = publication;
  granted.checksum = model_checksum(model);
  granted.round = round;
  granted.directive = std::move(directive);
  return granted;
}

void WorkerDesk::start() {
  core_->start(now);
  collect();
}

void WorkerDesk::connect(Directive directive) {
  start();
  PACELINE_CHECK(asked<Hello>() != nullptr);
  reply(Lane::kExchange, welcome(std::move(directive)));
  serve_model();
}

void WorkerDesk::serve_model() {
  std::vector<float> copy(model.size(), 0.0f);
  EncodedUpdate frame;
  PACELINE_CHECK(
      encode_delta(layout(), CodecId::kRaw32, {0, publication}, model, copy, &frame).ok());
  while (const Fetch* fetch = asked<Fetch>()) {
    Fetched fetched;
    fetched.generation = generation;
    fetched.publication = publication;
    fetched.key_frame = true;
    fetched.chunk = fetch->chunk;
    fetched.chunk_count = layout().chunk_count();
    fetched.checksum = model_checksum(model);
    fetched.payload = frame.chunks[fetch->chunk];
    if (fetched.chunk == 0) ++key_frames_served;
    reply(Lane::kExchange, std::move(fetched));
  }
}

Exchange WorkerDesk::take_update() {
  chunks_.clear();
  while (const Push* push = asked<Push>()) {
    PACELINE_CHECK(push->chunk == chunks_.size());
    chunks_.push_back(push->payload);
    reply(Lane::kExchange, Got{push->sequence, push->chunk});
  }
  PACELINE_CHECK(asked<Exchange>() != nullptr);
  if (!chunks_.empty()) codec_ = verify_payload(layout(), 0, chunks_[0]).value().codec();
  return *asked<Exchange>();
}

std::vector<float> WorkerDesk::decoded() const {
  std::vector<float> sum(layout().element_count());
  for (uint32_t i = 0; i < chunks_.size(); ++i)
    add_payload(layout(), verify_payload(layout(), i, chunks_[i]).value(), 3, sum);
  return sum;
}

void WorkerDesk::grant(Directive directive) {
  ++publication;
  ++round;
  reply(Lane::kExchange, granted(std::move(directive)));
  serve_model();
}

}  // namespace paceline::test
