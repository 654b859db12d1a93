// How many local steps lie between two exchanges (tau).
//
// A frequency policy is a pure estimator: it is told what the fleet's evaluations say and answers
// with a tau and the reason. It sees no model, link or clock. The Director (server/director.h) asks
// at each cut.
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
  double loss = 0;  // mean over the rows

  double accuracy() const {
    return rows > 0 ? static_cast<double>(correct) / static_cast<double>(rows) : 0;
  }
};

class Freq {
 public:
  virtual ~Freq() = default;

  // Evaluations come in the order of their publications.
  virtual void observe(const FleetEvaluation& evaluation) = 0;

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

// From "trend", "trend:2" (first tau) or "fixed:16". Errors: kInvalidArgument.
Result<std::unique_ptr<Freq>> make_freq(std::string_view text);

// Parameter of a policy: tau from text, `fallback` if empty.
Result<uint32_t> parse_tau(std::string_view policy, std::string_view text, uint32_t fallback);

}  // namespace paceline
