// Who waits for whom.
//
// A pace answers from a table of the members: apply an update now or hold it for a close? do the
// held updates make a close? may this worker go on? by what is a sum divided? Rules that adapt are
// also told what happens, and answer from what they remember. A pace sees no socket, system clock,
// model or codec. The server asks after every event; the simulator asks the same object.
// docs/paces.md gives each rule with its source.
//
// A worker's iteration is the work between two of its exchanges; its clock counts finished ones.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/pace/clock_table.h"

namespace paceline {

enum class Apply { kNow, kHold };

// What a weighted sum of updates is divided by (docs/decisions/0005): the weights of those who
// contributed, or of every counted member.
enum class Divisor { kContributors, kMembers };

// How an update's weight falls with its staleness: the versions of the model between the one that
// it was computed on and the one that it is added to. The divisor does not follow.
enum class StalenessWeight {
  kNone,
  kReciprocal,      // 1 / max(1, staleness)
  kReciprocalRoot,  // 1 / sqrt(1 + staleness)
};

class Pace {
 public:
  virtual ~Pace() = default;

  virtual Apply apply() const = 0;
  virtual Divisor divisor() const = 0;
  // An update belongs to the round in which it was begun, and is refused once that is closed. Where
  // this is false no update is ever late, and members come and go at any time.
  virtual bool has_rounds() const { return apply() == Apply::kHold; }

  // Do the held updates make a close now? `members` is not empty.
  virtual bool closes(const ClockTable&) const { return false; }

  // May the worker of `row`, whose update is settled, start its next iteration? The answer changes
  // only with the row, the smallest clock, revision() and a close that takes the row's update.
  virtual bool releases(const ClockTable& members, const PaceRow& row) const = 0;
  uint64_t revision() const { return revision_; }

  // Elastic: workers say when they have their minimum and go on until they are told to cut.
  virtual bool elastic() const { return false; }
  // Elastic only: time to tell everybody to cut?
  virtual bool cuts(const ClockTable&) const { return false; }

  // How many iterations' work the worker does before its next exchange; at least 1.
  virtual uint32_t iterations(uint32_t) const { return 1; }

  // Without rounds: do `applied` updates make a publication? `interval_over`: since the last one a
  // worker's mean time between two exchanges has passed.
  virtual bool publishes(const ClockTable& members, uint64_t applied, bool interval_over) const {
    return applied >= members.size() || interval_over;
  }

  // What happens, in order. `row` is in the table already, its clock raised, held if so.
  virtual void pushed(const ClockTable&, const PaceRow&, TimeUs) {}
  // The held updates were applied; their rows are not held any more.
  virtual void closed(const ClockTable&, TimeUs) {}
  // Workers became members, or are none any more.
  virtual void members_changed(const ClockTable&, TimeUs) {}
  // Share of a planned run that is done, 0 to 1.
  virtual void progressed(double) {}

  // Of "auto" alone: from now on it follows this rule. Between two rounds, with clocks made level.
  virtual void replace_rule(std::unique_ptr<Pace>) {}

  // Why a worker waits, for people: "its round waits for the others".
  virtual const char* waiting_reason() const = 0;

  // In (0, 1]: the factor on an update's weight.
  double weight(uint64_t staleness) const;
  void set_staleness_weight(StalenessWeight weight) { staleness_weight_ = weight; }

 protected:
  // Says that releases() may answer otherwise now.
  void revise() { ++revision_; }

 private:
  uint64_t revision_ = 0;
  StalenessWeight staleness_weight_ = StalenessWeight::kNone;
};

struct PaceInfo {
  const char* name;
  const char* description;
};
std::span<const PaceInfo> paces();

// From "bsp", "ssp:3" or "dssp:3,12"; "+stale" behind any of them weighs stale updates less.
// Errors: kInvalidArgument with the names or the parameters' form.
Result<std::unique_ptr<Pace>> make_pace(std::string_view text);

}  // namespace paceline
