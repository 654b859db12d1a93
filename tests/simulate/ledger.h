// A toy run with books: what each worker produced and lost, and what the server applied of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/base/random.h"
#include "tests/support/toy_fleet.h"

namespace paceline::test {

inline constexpr TimeUs kMinute = 60'000'000;
inline constexpr size_t kLedgerWorkers = 3;
inline constexpr uint32_t kLedgerHidden = 600;  // so that a layer is wide enough for every codec

using Flat = std::vector<double>;

// What one worker says of itself.
struct Books final : MassObserver {
  void produced(std::span<const float> update) override { add(update, &produced_sum); }
  void lost(std::span<const float> values) override { add(values, &lost_sum); }
  void taken_back(uint64_t sequence) override { taken.insert(sequence); }
  static void add(std::span<const float> values, Flat* sum);
  Flat produced_sum, lost_sum;
  std::set<uint64_t> taken;
  uint64_t first_sequence = 1;  // earlier ones belong to books that were closed
};

// What the server has applied, update by update: never one twice.
struct Applied final : ApplyObserver {
  Applied(const ParameterLayout& l, uint64_t run_seed) : layout(l), seed(run_seed) {}
  void applied(const Member& member, const HeldUpdate& update) override;
  // What a server that came back from an older state does not know any more.
  void roll_back(const Member& member);
  // What it never told anybody, and will be sent again.
  void forget(const Member& member);

  const ParameterLayout& layout;
  uint64_t seed;
  std::map<uint32_t, std::map<uint64_t, std::vector<float>>> updates;
  std::map<uint32_t, std::map<uint64_t, std::vector<float>>> rolled_back;
};

struct LedgerPlan {
  const char* pace = "bsp";
  CodecId codec = CodecId::kQ8;
  LoopbackFaults faults = {.delay_us = 500};
  TimeUs slowest_step_us = 15'000;  // of the third worker; the others take 5 ms
  double momentum = 0.9;
  double refused = 0;  // share of the exchanges that are made late on their way
  bool unsend = true;
  uint64_t seed = 1;
  Recording recording = Recording::kOff;
  std::function<bool(ServerCore&)> before_replies = {};  // as FleetOptions has it
};

class Ledger {
 public:
  explicit Ledger(const LedgerPlan& plan);

  Fleet& fleet() { return *fleet_; }
  Applied& applied() { return *applied_; }
  Books& books(size_t worker) { return books_[worker]; }
  // The next so many exchanges are refused, whosever they are.
  void refuse_next(uint32_t count) { refuse_next_ = count; }

  bool run(TimeUs duration, const std::function<bool()>& done);
  // Ends the run on a quiet network, so that nothing is in flight.
  void settle();

  // The largest difference of the two sides, as a share of the largest mass; between two events
  // without a pending update.
  double imbalance(size_t worker);
  void check_conserved();

 private:
  bool refuses(const Exchange& exchange);

  LedgerPlan plan_;
  Random chance_;
  FleetOptions options_;
  std::optional<Applied> applied_;
  std::unique_ptr<Fleet> fleet_;
  Books books_[kLedgerWorkers];
  uint32_t refuse_next_ = 0;
  uint64_t refused_last_ = 0;
};

// 20 % of requests and replies lost, 20 % of requests doubled, and messages that overtake each
// other.
LoopbackFaults bad_network();

}  // namespace paceline::test
