// Composes each round's directive, and says why.
//
// Policies are estimators; this is the one place where their answers become what every worker does
// next: tau, codecs, rate, whether to evaluate, whether the run is over. Pure: what it knows it was
// told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/content/content.h"
#include "runtime/freq/freq.h"
#include "runtime/pace/policy.h"
#include "runtime/wire/messages.h"

namespace paceline {

struct DirectorOptions {
  ContentOptions content;
  double rate = 0.05;
  // The rate holds for the first half of a planned run and falls linearly to this share of it.
  double rate_end = 0.1;
  double keep = 1;
  bool dense_end = true;  // false: a short update has as much noise as a long one
  uint32_t batch = 32;
};

// What the fleet looks like at a cut.
struct FleetFacts {
  uint64_t publication = 0;
  uint64_t held_out_rows_max = 0;  // of one worker
  double progress = -1;            // of the planned run, 0 to 1; negative: no plan
  // Measured over the last rounds with the present codecs; 0: nothing yet.
  double step_us = 0;      // of the slowest worker
  double exchange_us = 0;  // of a round, beside computing
  bool settled = true;     // that is the median of as many rounds as it ever is
  bool rounds = true;      // the pace closes rounds over all members
  bool elastic = false;    // and workers go on until they are told to cut
  size_t members = 0;
  double training_loss = 0;             // mean over the members of what they reported last
  double now_us = 0;                    // for choose_pace() alone
  std::span<const WorkerCost> workers;  // whose link is known
};

class Director {
 public:
  Director(DirectorOptions options, std::unique_ptr<Freq> freq);

  void observe(const FleetEvaluation& evaluation);
  void observe_round(const RoundFacts& round) { freq_->observe_round(round); }
  // Whether rounds have to be compared for the frequency policy.
  bool wants_rounds() const { return freq_->wants_rounds(); }
  // With pace = "auto": the rule from now on. Asked before compose(), at the end of a round; where
  // it changes, tau and codecs stay.
  const PaceCandidate& choose_pace(const FleetFacts& facts);
  const PacePolicy& pace() const { return pace_; }
  Directive compose(const FleetFacts& facts);
  // Without rounds: the tau of a worker whose own link allows no less than this, from the last
  // directive's on; `present` is what it had before.
  uint32_t tau_of(const WorkerCost& worker, uint32_t present) const;

  // What goes with the directive's codecs; it is told what codecs keep back.
  ContentPolicy& content() { return content_; }
  const ContentPolicy& content() const { return content_; }

  void save(ByteWriter* out) const;
  Status restore(ByteReader* in);

 private:
  void follow_link(const FleetFacts& facts);
  bool is_dense(const FleetFacts& facts) const;
  PaceFacts pace_facts(const FleetFacts& facts);
  ContentFacts content_facts(const FleetFacts& facts) const;

  DirectorOptions options_;
  std::unique_ptr<Freq> freq_;
  ContentPolicy content_;
  PacePolicy pace_;
  std::vector<PaceBoard> boards_;  // of the facts under way
  bool pace_moves_ = false;        // in the next directive
  bool others_moved_ = false;      // tau or codecs, in the last directive
  double rest_us_ = 0;  // of a round, when there was one last: neither computing nor carrying
  uint32_t tau_ = 0;    // of the last directive; 0: there was none
  CodecPair codecs_;    // likewise
  bool codecs_changed_ = false;  // and nothing was measured since
  bool dense_ = false;           // the end of the run: every step
  uint32_t link_tau_ = 1;        // the least that the link allows; a power of two
  double link_step_us_ = 0;      // the slowest, when it was found
  bool settled_ = false;         // what it was found from
  std::string link_reason_;
  uint64_t rounds_since_evaluation_ = UINT64_MAX / 2;
};

}  // namespace paceline
