// How many local steps lie between two exchanges (tau).
//
// A frequency policy is a pure estimator: it is told what the fleet's evaluations and the rounds'
// updates say, and answers with a tau and the reason. It sees no model, link or clock. The Director
// (server/director.h) asks at each cut. docs/freqs.md gives each rule with its source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

// The whole fleet's evaluation of one publication on the workers' hold-outs.
struct FleetEvaluation {
  uint64_t publication = 0;
  uint64_t rows = 0;
  uint64_t correct = 0;
  double loss = 0;        // mean over the rows
  double rate_share = 1;  // the learning rate at that time / the first one

  double accuracy() const {
    return rows > 0 ? static_cast<double>(correct) / static_cast<double>(rows) : 0;
  }
};

// What the updates of one closed round say of each other, and what the round cost. 0: not measured.
// Norms are of decoded updates, in weight units; means are weighted as the round's sum is.
struct RoundFacts {
  uint32_t workers = 0;  // that contributed an update
  uint32_t tau = 1;
  // How far the updates of different workers pull the same way, -1 to 1 (1: all alike), and how far
  // the halves of one worker's own path do: what is missing there is noise, not drift.
  double cross = 0;
  double self = 0;
  double mean_norm = 0;    // of the mean update
  double spread = 0;       // root mean square distance of an update from the mean
  double turn = 0;         // distance of the mean update from the one before
  double rate = 0;         // learning rate
  double step_us = 0;      // of the slowest worker
  double exchange_us = 0;  // of a round, beside computing
  double left_us = 0;      // of a planned run
};

class Freq {
 public:
  virtual ~Freq() = default;

  // Evaluations come in the order of their publications.
  virtual void observe(const FleetEvaluation& evaluation) = 0;
  // Rounds come in their order.
  virtual void observe_round(const RoundFacts&) {}

  // Whether observe_round() needs what costs a pass over the model to measure.
  virtual bool wants_rounds() const { return false; }

  // 1 to kTauMax. Stays what it is between observations.
  virtual uint32_t tau() const = 0;
  // Whether the Director may raise tau where exchanges are dear on this link.
  virtual bool follows_link() const = 0;
  // Why, for people: "loss falls 0.031 +- 0.004 per evaluation: talk less".
  virtual const std::string& reason() const = 0;

  // Everything that later answers depend on.
  virtual void save(ByteWriter* out) const = 0;
  virtual Status restore(ByteReader* in) = 0;
};

struct FreqInfo {
  const char* name;
  const char* description;
};
std::span<const FreqInfo> freqs();

// From "trend", "trend:2" (a tau, mostly the first) or "fixed:16". Errors: kInvalidArgument.
Result<std::unique_ptr<Freq>> make_freq(std::string_view text);

// Parameter of a policy: tau from text, `fallback` if empty.
Result<uint32_t> parse_tau(std::string_view policy, std::string_view text, uint32_t fallback);

}  // namespace paceline
