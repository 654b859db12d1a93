// The whole system under a virtual clock, held against references that know nothing of it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::ToyOptions;

namespace {

constexpr TimeUs kMinute = 60'000'000;

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

std::unique_ptr<Fleet> started(FleetOptions options) {
  Result<std::unique_ptr<Fleet>> fleet = Fleet::make(std::move(options));
  REQUIRE_MESSAGE(fleet.has_value(), (fleet ? "" : fleet.error().message()));
  return std::move(*fleet);
}

// Master after `rounds` closed rounds.
std::vector<float> model_after(FleetOptions options, uint64_t rounds) {
  std::unique_ptr<Fleet> fleet = started(std::move(options));
  REQUIRE(fleet->run(30 * kMinute, [&] { return fleet->server().round() > rounds; }));
  return copy_of(fleet->server().master());
}

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// One process, no network, no codec: each round every worker's micro-batches are averaged, passed
// through its momentum, and the weighted updates are summed in order.
std::vector<float> ordered_reference(const ToyOptions& toy, uint64_t rounds) {
  const RunSpec run = parse_run(test::toy_run_text(toy)).value();
  const size_t n = static_cast<size_t>(run.model.layout.element_count());
  std::vector<float> model(n), gradient(n);
  init_parameters(run.model, run.training.seed, model);
  struct Board {
    LocalRun local;
    std::vector<float> momentum;
  };
  std::vector<Board> boards;
  for (size_t i = 0; i < toy.workers; ++i) {
    const std::string name = format_text("w%zu", i);
    boards.push_back(
        {make_local_run_factory(test::toy_data(toy, i), name, "reference")(test::toy_run_text(toy))
             .value(),
         std::vector<float>(n)});
  }
  const auto rate = static_cast<float>(run.training.rate);
  const auto beta = static_cast<float>(run.training.momentum);
  for (uint64_t round = 0; round < rounds; ++round) {
    std::vector<float> sum(n);
    for (Board& board : boards) {
      std::vector<float> mean(n);
      for (int micro = 0; micro < 2; ++micro) {
        REQUIRE(board.local.trainer->gradient(model, toy.batch / 2, gradient).has_value());
        for (size_t i = 0; i < n; ++i) mean[i] += gradient[i];
      }
      for (size_t i = 0; i < n; ++i) {
        mean[i] /= 2.0f;
        board.momentum[i] = beta * board.momentum[i] + mean[i];
        const float moved = model[i] - rate * board.momentum[i];
        const float update = moved - model[i];
        sum[i] += std::fabs(update) < 0x1p-90f ? 0.0f : update;  // weights are 1: equal shards
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const float step = sum[i] / static_cast<float>(toy.workers);
      model[i] += std::fabs(step) < 0x1p-90f ? 0.0f : step;
      if (std::fabs(model[i]) < 0x1p-90f) model[i] = 0;
    }
  }
  return model;
}

// Tau as a function of the publications that were evaluated so far.
class PlannedFreq final : public Freq {
 public:
  explicit PlannedFreq(std::vector<uint32_t> plan) : plan_(std::move(plan)) {}
  void observe(const FleetEvaluation&) override { ++seen_; }
  uint32_t tau() const override { return plan_[std::min(seen_ / 12, plan_.size() - 1)]; }
  bool follows_link() const override { return false; }
  const std::string& reason() const override { return reason_; }
  void save(ByteWriter*) const override {}
  Status restore(ByteReader*) override { return {}; }

 private:
  std::vector<uint32_t> plan_;
  size_t seen_ = 0;
  std::string reason_ = "planned";
};

}  // namespace

TEST_SUITE("simulate/fleet") {
  TEST_CASE("bsp with raw32 gives the bytes of an ordered single-process reference") {
    const ToyOptions toy;
    const std::vector<float> ours = model_after(test::toy_fleet(toy), 25);
    CHECK(same_bytes(ours, ordered_reference(toy, 25)));
  }

  TEST_CASE("compat with equal workers gives the bytes of bsp") {
    for (const char* freq : {"fixed:1", "fixed:4"}) {
      FleetOptions bsp = test::toy_fleet({});
      bsp.server.freq = freq;
      // Without latency nobody gets a micro-batch further before it is told to cut.
      bsp.faults.delay_us = 0;
      FleetOptions compat = bsp;
      compat.server.pace = "compat";
      CHECK_MESSAGE(same_bytes(model_after(bsp, 20), model_after(compat, 20)), freq);
    }
  }

  TEST_CASE("the order in which updates arrive does not change a byte") {
    for (const CodecId codec : {CodecId::kRaw32, CodecId::kQ8, CodecId::kS1r}) {
      std::vector<float> first;
      for (uint64_t i = 0; i < 4; ++i) {
        FleetOptions options = test::toy_fleet({.hidden = 512});
        options.server.codec_up = options.server.codec_down = codec;
        options.seed = test::seed() + i;
        options.faults.jitter_us = 20'000;
        options.faults.duplication = 0.2;
        const std::vector<float> model = model_after(options, 8);
        if (i == 0) first = model;
        CHECK_MESSAGE(same_bytes(first, model), codec_info(codec).name);
      }
    }
  }

  TEST_CASE("every worker's published model equals the server's at each version") {
    FleetOptions options = test::toy_fleet({.hidden = 600});
    options.server.pace = "compat";
    options.server.freq = "fixed:4";
    options.server.codec_up = options.server.codec_down = CodecId::kS1r;
    options.workers[3].step_us = 20'000;
    std::unique_ptr<Fleet> fleet = started(std::move(options));
    std::map<uint64_t, uint32_t> checksums;
    uint64_t compared = 0;
    REQUIRE(fleet->run(30 * kMinute, [&] {
      checksums[fleet->server().publication()] = fleet->server().checksum();
      for (size_t i = 0; i < fleet->worker_count(); ++i) {
        const WorkerCore& worker = fleet->worker(i);
        if (worker.publication() == 0) continue;
        if (checksums.at(worker.publication()) != worker.published_checksum())
          FAIL("models differ");
        ++compared;
      }
      return fleet->server().round() > 20;
    }));
    CHECK(compared > 80);
    for (size_t i = 0; i < fleet->worker_count(); ++i)
      CHECK(fleet->worker(i).stats().checksum_faults == 0);
  }

  TEST_CASE("compat lets fast workers work while bsp lets them wait") {
    const auto waiting_share = [](const char* pace) {
      // Rows enough that four times tau is less than an epoch.
      FleetOptions options = test::toy_fleet({.rows_per_worker = 2000});
      options.server.pace = pace;
      options.server.freq = "fixed:8";
      options.workers[2].step_us = 10'000;
      options.workers[3].step_us = 20'000;
      options.faults.delay_us = 100;
      std::unique_ptr<Fleet> fleet = started(std::move(options));
      REQUIRE(fleet->run(kMinute, [&] { return fleet->now() >= 20'000'000; }));
      double waited = 0;
      for (size_t i = 0; i < 4; ++i) waited += to_seconds(fleet->worker(i).stats().waited_us);
      return waited / (4 * to_seconds(fleet->now()));
    };
    CHECK(waiting_share("bsp") > 0.4);  // utilisation of bsp is 50 % at 1:1:2:4
    CHECK(waiting_share("compat") < 0.05);
  }

  TEST_CASE("asp never waits and ssp never lets a worker lead by more than its bound") {
    for (const char* pace : {"asp", "ssp:3"}) {
      FleetOptions options = test::toy_fleet({});
      options.server.pace = pace;
      options.server.codec_up = CodecId::kQ8;
      options.workers[2].step_us = 10'000;
      options.workers[3].step_us = 20'000;
      options.faults.delay_us = 100;
      std::unique_ptr<Fleet> fleet = started(std::move(options));
      uint64_t lead_max = 0;
      REQUIRE(fleet->run(kMinute, [&] {
        uint64_t low = UINT64_MAX, high = 0;
        for (const Member& member : fleet->server().members()) {
          if (!member.counted) return false;
          low = std::min(low, member.clock);
          high = std::max(high, member.clock);
        }
        lead_max = std::max(lead_max, high - low);
        return fleet->now() >= 20'000'000;
      }));
      if (std::string(pace) == "ssp:3")
        CHECK(lead_max == 4);  // s + 1, right after a push
      else
        CHECK(lead_max > 100);
      CHECK(test::toy_loss({}, fleet->server().published()) < 0.6);
    }
  }

  TEST_CASE("tau 16 -> 1 -> 16 with s1r shows no jump in the loss") {
    const ToyOptions toy{.rows_per_worker = 2000, .rate = 0.005, .hidden = 600};
    FleetOptions options = test::toy_fleet(toy);
    options.server.pace = "compat";
    options.server.codec_up = options.server.codec_down = CodecId::kS1r;
    options.make_freq = [] {
      return std::make_unique<PlannedFreq>(std::vector<uint32_t>{16, 1, 16});
    };
    std::unique_ptr<Fleet> fleet = started(std::move(options));
    std::vector<std::pair<uint32_t, double>> losses;
    uint64_t seen = 0;
    fleet->run(10 * kMinute, [&] {
      if (fleet->server().evaluation_count() == seen) return false;
      seen = fleet->server().evaluation_count();
      losses.emplace_back(fleet->server().directive().tau,
                          test::toy_loss(toy, fleet->server().published()));
      return seen >= 40;
    });
    REQUIRE(losses.size() >= 40);
    // The largest rise within two evaluations of a change, and anywhere else.
    double at_change = 0, elsewhere = 0;
    for (size_t i = 4; i + 1 < losses.size(); ++i) {
      const double rise = losses[i + 1].second - losses[i].second;
      const bool changed =
          losses[i + 1].first != losses[i].first || losses[i].first != losses[i - 1].first;
      (changed ? at_change : elsewhere) = std::max(changed ? at_change : elsewhere, rise);
    }
    CHECK_MESSAGE(at_change <= elsewhere + 0.005,
                  "rise " << at_change << " at a change of tau, " << elsewhere << " elsewhere");
    CHECK(losses.back().second < 0.55);
  }

  TEST_CASE("a worker whose loss is not finite moves nothing and makes nobody's step smaller") {
    class BrokenTrainer final : public LocalTrainer {
     public:
      Result<float> gradient(std::span<const float>, uint32_t, std::span<float> gradient) override {
        std::ranges::fill(gradient, NAN);
        return NAN;
      }
      Result<EvaluationCounts> evaluate(std::span<const float>) override {
        return EvaluationCounts{};
      }
    };
    FleetOptions alone = test::toy_fleet({.workers = 1});
    FleetOptions with_broken = test::toy_fleet({.workers = 2});
    with_broken.workers[1].factory = [](const std::string& text) -> Result<LocalRun> {
      return LocalRun{parse_run(text).value(), std::make_unique<BrokenTrainer>()};
    };
    CHECK(same_bytes(model_after(alone, 10), model_after(with_broken, 10)));
  }

  TEST_CASE("a worker that dies is left behind and taken back when it returns") {
    FleetOptions options = test::toy_fleet({});
    options.server.pace = "compat";
    options.server.freq = "fixed:4";
    options.server.min_workers = 1;
    std::unique_ptr<Fleet> fleet = started(std::move(options));
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > 10; }));
    fleet->stop_worker(1);
    const uint64_t round = fleet->server().round();
    const TimeUs died = fleet->now();
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > round + 10; }));
    CHECK(fleet->now() - died < 6'000'000);  // one deadline, once
    fleet->restart_worker(1);
    REQUIRE(fleet->run(2 * kMinute, [&] { return fleet->server().members()[1].counted; }));
  }

  TEST_CASE("a server that comes back from an older state goes on with every worker") {
    FleetOptions options = test::toy_fleet({.hidden = 512});
    options.server.pace = "compat";
    options.server.freq = "fixed:4";
    options.server.codec_up = options.server.codec_down = CodecId::kS1r;
    for (const bool exact : {true, false}) {
      std::unique_ptr<Fleet> fleet = started(options);
      REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > 10; }));
      const Bytes state = fleet->server().save();
      if (!exact) REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > 15; }));
      REQUIRE(fleet->restart_server(state, exact).ok());
      CHECK(fleet->server().generation() == (exact ? 1 : 2));
      REQUIRE(fleet->run(3 * kMinute, [&] { return fleet->server().round() > 30; }));
      for (size_t i = 0; i < fleet->worker_count(); ++i) {
        CHECK(fleet->worker(i).failure().ok());
        CHECK(fleet->worker(i).stats().rolled_back == (exact ? 0 : 1));
      }
    }
  }

  TEST_CASE("a board that is far slower than the others holds a round for its share of steps") {
    FleetOptions options = test::toy_fleet({.workers = 5});
    options.server.pace = "compat";
    options.server.freq = "fixed:8";
    options.workers[4].step_us = 100'000;  // the others: 5 ms
    const std::unique_ptr<Fleet> fleet = started(std::move(options));
    // Five rounds as everybody's are, of 800 ms; then one step of its own in each.
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > 6; }));
    const uint64_t slow_before = fleet->totals(4).steps;
    const TimeUs from = fleet->now();
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > 26; }));
    CHECK(fleet->now() - from < 20 * 150'000);
    const uint64_t slow_steps = fleet->totals(4).steps - slow_before;
    CHECK(slow_steps >= 20);
    CHECK(slow_steps <= 24);
  }

  TEST_CASE("while a round waits for one step of a board, the others use that time") {
    FleetOptions options = test::toy_fleet({.workers = 5, .rows_per_worker = 6400});
    options.server.pace = "compat";
    options.server.freq = "trend:2";
    options.workers[4].step_us = 500'000;  // the others: 5 ms
    const std::unique_ptr<Fleet> fleet = started(std::move(options));
    // A hundred times as slow is seen in one round; then tau follows what a round takes anyway.
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().directive().tau >= 32; }));
    CHECK(fleet->server().round() < 20);
    const uint64_t fast_before = fleet->totals(0).steps, round_before = fleet->server().round();
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() >= round_before + 10; }));
    CHECK(fleet->totals(0).steps - fast_before > 10 * 64);
  }

  TEST_CASE("without rounds a thin link makes its own worker's exchanges rare, nobody else's") {
    FleetOptions options = test::toy_fleet({.workers = 4, .hidden = 600});
    options.server.pace = "asp";
    options.server.freq = "trend:2";
    options.server.codec_up = options.server.codec_down = CodecId::kQ8;
    LoopbackFaults thin;
    thin.delay_us = 1000;
    thin.link = {1e6, 1e6};
    options.workers[3].link = thin;
    const std::unique_ptr<Fleet> fleet = started(std::move(options));
    fleet->run(kMinute, [&] { return fleet->now() >= 20'000'000; });
    const auto steps_per_exchange = [&](size_t i) {
      const WorkerTotals totals = fleet->totals(i);
      return static_cast<double>(totals.steps) / static_cast<double>(totals.exchanges);
    };
    for (size_t i = 0; i < 3; ++i) CHECK(steps_per_exchange(3) > 4 * steps_per_exchange(i));
  }

  TEST_CASE("a run that is to end waits for no worker that has left, whatever min_workers says") {
    for (const std::string pace : {"bsp", "compat", "backup", "asp", "wsp"}) {
      CAPTURE(pace);
      FleetOptions options = test::toy_fleet({.workers = 3});
      options.server.pace = pace;
      options.workers[1].leaves_at_us = 500'000;
      const std::unique_ptr<Fleet> fleet = started(std::move(options));
      fleet->run(kMinute, [&] { return fleet->now() >= 2'000'000; });
      fleet->server().finish(fleet->now());
      CHECK(fleet->run(2 * kMinute, [&] {
        for (size_t i = 0; i < fleet->worker_count(); ++i)
          if (fleet->runs(i) && fleet->worker(i).activity() != Activity::kStopped) return false;
        return fleet->server().finished();
      }));
    }
  }

  TEST_CASE("finish: an exact publication, and everybody stops with the server's model") {
    FleetOptions options = test::toy_fleet({.hidden = 512});
    options.server.pace = "compat";
    options.server.freq = "fixed:4";
    options.server.codec_up = options.server.codec_down = CodecId::kS1r;
    std::unique_ptr<Fleet> fleet = started(std::move(options));
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() > 10; }));
    fleet->server().finish(fleet->now());
    REQUIRE(fleet->run(2 * kMinute, [&] { return fleet->server().all_gone(fleet->now()); }));
    REQUIRE(fleet->run(3 * kMinute, [&] {
      for (size_t i = 0; i < 4; ++i)
        if (fleet->worker(i).activity() != Activity::kStopped) return false;
      return true;
    }));
    CHECK(same_bytes(fleet->server().published(), fleet->server().master()));
    for (size_t i = 0; i < 4; ++i)
      CHECK(fleet->worker(i).published_checksum() == fleet->server().checksum());
  }
}
