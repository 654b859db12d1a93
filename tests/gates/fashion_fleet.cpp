#include "tests/gates/fashion_fleet.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/check.h"
#include "runtime/data/reader.h"
#include "runtime/worker/local_trainer.h"
#include "simulate/codec_rounds.h"

namespace paceline::test {

namespace {

constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist/";
constexpr TimeUs kSteps[] = {5000, 5000, 10'000, 20'000};

FleetOptions fleet_options(const FashionOptions& options) {
  FleetOptions fleet;
  ServerOptions& server = fleet.server;
  server.run_text = format_text(
      "[model]\ninput = [28, 28]\nclasses = 10\n[[layer]]\ntype = \"flatten\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = 128\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = 10\n[training]\nbatch = 32\nrate = %.17g\nseed = %llu\n"
      "[data]\nscale = 0.00392156862745098\n",
      options.rate, static_cast<unsigned long long>(options.seed));
  server.run = parse_run(server.run_text).value();
  server.pace = options.pace;
  server.freq = options.freq;
  server.codec_up = options.codec_up;
  server.codec_down = options.codec_down;
  // The exact model has to come through within the deadline.
  if (options.link_bits_per_s > 0)
    server.exchange_deadline_ms = std::max(server.exchange_deadline_ms,
                                           static_cast<uint32_t>(10e9 / options.link_bits_per_s));
  server.codec_up_auto = server.codec_down_auto = options.codec_auto;
  for (uint32_t i = 0; i < 4; ++i) {
    FleetWorker worker;
    worker.name = format_text("board%u", i + 1);
    worker.step_us = kSteps[i];
    auto data = std::make_shared<LocalData>();
    data->dataset = fashion_training_set();
    ShardOptions shard;
    shard.index = i;
    shard.count = 4;
    shard.dirichlet_alpha = options.alpha;
    shard.seed = options.seed;
    shard.row_count_max = kFashionTrainingRows;
    data->dataset.keep(shard_rows(data->dataset.labels(), 10, shard).value());
    data->split = split_hold_out(data->dataset.row_count());
    worker.training_rows = data->split.training.size();
    worker.held_out_rows = std::min(data->split.held_out.size(), kEvaluatedRowsMax);
    worker.factory = make_local_run_factory(data, worker.name, "auto");
    server.fleet.push_back(worker.name);
    fleet.workers.push_back(std::move(worker));
  }
  fleet.seed = options.seed;
  fleet.faults.delay_us = 200;
  fleet.faults.link = {options.link_bits_per_s, options.link_bits_per_s};
  return fleet;
}

}  // namespace

const Dataset& fashion_training_set() {
  static const Dataset dataset = [] {
    ReadOptions options;
    options.label_file = std::string(kFolder) + "train-labels-idx1-ubyte.gz";
    Result<Dataset> read =
        read_dataset(std::string(kFolder) + "train-images-idx3-ubyte.gz", options);
    PACELINE_CHECK(read.has_value());
    read->set_scaling(1.0f / 255, 0);
    return std::move(*read);
  }();
  return dataset;
}

Dataset fashion_control_set() {
  const Dataset& all = fashion_training_set();
  std::vector<uint32_t> rows(all.row_count() - kFashionTrainingRows);
  std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(kFashionTrainingRows));
  Dataset control = all;
  control.keep(rows);
  return control;
}

bool fashion_data_is_there() {
  return access((std::string(kFolder) + "train-images-idx3-ubyte.gz").c_str(), R_OK) == 0;
}

FashionPoint FashionRun::reached(double accuracy) const {
  for (size_t i = 2; i < curve.size(); ++i)
    if ((curve[i].accuracy + curve[i - 1].accuracy + curve[i - 2].accuracy) / 3 >= accuracy)
      return curve[i];
  return {-1, 0, 0};
}

FashionRun run_fashion(const FashionOptions& options) {
  std::unique_ptr<Fleet> fleet = Fleet::make(fleet_options(options)).value();
  std::unique_ptr<Trainer> trainer =
      make_trainer(fleet->server().options().run.model, 250, "auto").value();
  const Dataset control = fashion_control_set();
  FashionRun result;
  TimeUs next = 0;
  const auto planned = static_cast<TimeUs>(options.seconds * 1e6);
  fleet->run(planned * 2, [&] {
    fleet->server().set_progress(std::min(1.0, to_seconds(fleet->now()) / options.seconds));
    if (fleet->now() >= planned) fleet->server().finish(fleet->now());
    if (fleet->now() >= next) {
      next += 250'000;
      result.curve.push_back({to_seconds(fleet->now()), fleet->bytes(),
                              accuracy_of(*trainer, control, fleet->server().published())});
    }
    return fleet->server().finished();
  });
  const size_t last = std::min<size_t>(result.curve.size(), 5);
  for (size_t i = result.curve.size() - last; i < result.curve.size(); ++i)
    result.final_accuracy += result.curve[i].accuracy / static_cast<double>(last);
  result.rounds = fleet->server().round() - 1;
  return result;
}

}  // namespace paceline::test
