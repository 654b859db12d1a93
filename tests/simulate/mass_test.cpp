// Gradient mass is conserved per worker, whatever the network does:
// applied + in flight + residual + counted losses = produced (un-send, verdicts,
// sequences).
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::ToyOptions;

namespace {

constexpr TimeUs kMinute = 60'000'000;

struct Books final : MassObserver {
  explicit Books(size_t count) : produced_sum(count), lost_sum(count), applied_sum(count) {}
  void produced(std::span<const float> update) override {
    for (size_t i = 0; i < update.size(); ++i) produced_sum[i] += static_cast<double>(update[i]);
  }
  void lost(std::span<const float> values) override {
    for (size_t i = 0; i < values.size(); ++i) lost_sum[i] += static_cast<double>(values[i]);
  }
  std::vector<double> produced_sum, lost_sum, applied_sum;
};

struct Applied final : ApplyObserver {
  explicit Applied(const ParameterLayout& l, uint64_t run_seed) : layout(l), seed(run_seed) {}
  void applied(const Member& member, const HeldUpdate& update) override {
    CHECK(update.sequence > last_sequence[member.id]);  // at most once, in order
    last_sequence[member.id] = update.sequence;
    if (update.views.empty()) return;
    std::vector<float> decoded(layout.element_count());
    for (const PayloadView& view : update.views) add_payload(layout, view, seed, decoded);
    for (size_t i = 0; i < decoded.size(); ++i)
      books[member.id]->applied_sum[i] += static_cast<double>(decoded[i]);
  }
  const ParameterLayout& layout;
  uint64_t seed;
  std::map<uint32_t, Books*> books;
  std::map<uint32_t, uint64_t> last_sequence;
};

void check_conserved(const char* pace, CodecId codec, LoopbackFaults faults, uint64_t seed) {
  const ToyOptions toy{.workers = 3, .hidden = 600};
  FleetOptions options = test::toy_fleet(toy);
  options.seed = seed;
  options.faults = faults;
  options.server.pace = pace;
  options.server.freq = "fixed:2";
  options.server.codec_up = codec;
  options.server.codec_down = CodecId::kQ8;
  options.server.exchange_deadline_ms = 400;
  options.server.heartbeat_ms = 200;
  options.server.min_workers = 1;
  options.workers[2].step_us = 15'000;
  Fleet& fleet = *Fleet::make(options).value().release();
  std::unique_ptr<Fleet> owner(&fleet);

  const ParameterLayout& layout = options.server.run.model.layout;
  const size_t count = static_cast<size_t>(layout.element_count());
  Applied applied(layout, options.server.run.training.seed);
  fleet.server().set_observer(&applied);
  std::vector<Books> books(3, Books(count));
  for (uint32_t i = 0; i < 3; ++i) applied.books[i] = &books[i];
  bool watching = false;
  fleet.run(4 * kMinute, [&] {
    if (!watching) {
      for (size_t i = 0; i < 3; ++i) fleet.worker(i).set_observer(&books[i]);
      watching = true;
    }
    return fleet.server().version() >= 60;
  });
  REQUIRE(fleet.server().version() >= 60);
  // Let the network come to rest, so that nothing is in flight, then end the run.
  fleet.network().set_faults({});
  fleet.server().finish(fleet.now());
  const bool stopped = fleet.run(fleet.now() + 4 * kMinute, [&] {
    for (size_t i = 0; i < 3; ++i)
      if (fleet.worker(i).activity() != Activity::kStopped) return false;
    return true;
  });
  for (size_t i = 0; i < 3; ++i)
    REQUIRE_MESSAGE(stopped,
                    pace << ": worker " << i << " waits for " << fleet.worker(i).waiting_for());
  for (size_t w = 0; w < 3; ++w) {
    double worst = 0, largest = 0;
    const std::span<const float> residual = fleet.worker(w).residual();
    for (size_t i = 0; i < count; ++i) {
      const double sum =
          books[w].applied_sum[i] + static_cast<double>(residual[i]) + books[w].lost_sum[i];
      worst = std::max(worst, std::fabs(sum - books[w].produced_sum[i]));
      largest = std::max(largest, std::fabs(books[w].produced_sum[i]));
    }
    CHECK_MESSAGE(worst <= 1e-5 * largest + 1e-12,
                  pace << ", " << codec_info(codec).name << ", worker " << w << ": off by " << worst
                       << " of " << largest << ", refused " << fleet.worker(w).stats().refused_late
                       << ", missed " << fleet.worker(w).stats().rounds_missed);
  }
}

}  // namespace

TEST_SUITE("simulate/mass") {
  TEST_CASE("without faults every bit of gradient is applied or in the residual") {
    for (const char* pace : {"bsp", "asp", "ssp:2", "compat"})
      for (const CodecId codec : {CodecId::kRaw32, CodecId::kQ8, CodecId::kS1, CodecId::kS1r})
        check_conserved(pace, codec, {.delay_us = 500}, test::seed());
  }

  TEST_CASE("lost requests, lost replies, doubled and overtaking messages lose no gradient") {
    LoopbackFaults faults;
    faults.delay_us = 2000;
    faults.jitter_us = 8000;
    faults.request_loss = 0.1;
    faults.reply_loss = 0.1;
    faults.duplication = 0.1;
    for (const char* pace : {"bsp", "asp", "compat"})
      for (const CodecId codec : {CodecId::kQ8, CodecId::kS1r})
        check_conserved(pace, codec, faults, test::seed() + 1);
  }
}
