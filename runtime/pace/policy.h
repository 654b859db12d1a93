// Which rule pace = "auto" follows (docs/paces.md): what each would cost is predicted from measured
// times; a rule that should be clearly cheaper is tried, and what the loss makes of it decides
// whether it stays.
//
// Pure: no clock, model or message. The Director (server/director.h) asks at the end of a round.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

// A fast board of an elastic round takes at most so many times tau steps (docs/decisions/0005).
inline constexpr uint32_t kStepsCapFactor = 4;
// A member whose step takes more than so many times the median's does less of an elastic round's
// work: as many steps as the median does in its time (docs/decisions/0012).
inline constexpr double kSlowFactor = 3;

struct PaceCandidate {
  const char* name;
  uint32_t group;  // updates that are applied together; 0: of all members, in rounds
};
// The first is what a run begins with. Others were never far from one of these (docs/paces.md).
inline constexpr PaceCandidate kPaceCandidates[] = {{"compat", 0}, {"lsp:2", 2}};
inline constexpr size_t kPaceCandidateCount = std::size(kPaceCandidates);

// One member, as measured.
struct PaceBoard {
  double step_us = 0;
  double exchange_us = 0;  // over its own link, with the codecs in use
  uint32_t own_tau = 1;    // that it has where it waits for nobody
};

struct PaceFacts {
  std::span<const PaceBoard> boards;  // whose link is known
  size_t members = 0;
  uint32_t round_tau = 1;  // tau where all wait for all
  double rest_us = 0;      // of a round: what is neither computing nor carrying
  double now_us = 0;
  // Of the members' last updates. Not of evaluations: without rounds few of these are complete.
  double training_loss = 0;
};

// Of a round of all boards, for each step of its tau: the slowest one's, but for those that do
// less.
double round_step_us(std::span<const PaceBoard> boards);

// Microseconds for as much progress as one step that nobody delays; facts.boards is not empty.
double price_pace(const PaceFacts& facts, const PaceCandidate& candidate);

class PacePolicy {
 public:
  // The rule of the next round; asked once a round. `others_move`: tau or codecs have just changed,
  // and the pace stays as it is.
  const PaceCandidate& decide(const PaceFacts& facts, bool others_move);
  const PaceCandidate& now() const { return kPaceCandidates[now_]; }
  // Why, for people.
  const std::string& reason() const { return reason_; }

  void save(ByteWriter* out) const;
  Status restore(ByteReader* in);

 private:
  struct Point {
    double at_us, loss;
  };

  void observe(const PaceFacts& facts);
  void judge_trial();
  void consider(const PaceFacts& facts);
  void change(size_t candidate, const std::string& reason);
  double fall() const;

  size_t now_ = 0;
  std::string reason_ = "the run begins with it";
  std::vector<Point> losses_;  // under the rule in force, of the last rounds
  uint32_t rounds_since_change_ = 0;
  uint32_t better_rounds_ = 0;  // in a row in which one candidate was clearly cheaper
  size_t better_ = 0;           // which
  // A rule on trial, and what it is held against.
  bool trial_ = false;
  size_t before_ = 0;
  double fall_before_ = 0;      // of the loss, in shares of it a second; 0: not measured
  double loss_before_ = 0;      // likewise
  double predicted_share_ = 1;  // of the time that the rule before takes
  // Rounds in which a rule that failed is left alone, and how many these were last time.
  std::array<uint32_t, kPaceCandidateCount> banned_rounds_ = {}, last_ban_ = {};
};

}  // namespace paceline
