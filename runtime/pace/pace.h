// Who waits for whom.
//
// A pace answers four questions from a table of workers, and does nothing else: apply an update now
// or hold it for its round? do the held updates make a round? may this worker go on? by what is a
// sum divided? It sees no socket, clock, model or codec. The server asks after every event; the
// simulator asks the same object. docs/paces.md gives each rule with its source.
//
// A worker's iteration is the work between two of its exchanges; its clock counts finished ones.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

// One worker as a pace sees it. Only members (counted in this round) are in the table, and
// contributors that are not counted yet are not.
struct PaceRow {
  uint32_t worker_id = 0;
  uint64_t clock = 0;  // finished iterations since it joined, on top of the smallest clock it met
  bool ready = false;  // elastic paces: it has its minimum of this round
  bool held = false;   // its update of this round waits for the close
};

// The member with the smallest clock; 0 for an empty table.
uint64_t smallest_clock(std::span<const PaceRow> members);

enum class Apply { kNow, kHold };

// What a weighted sum of updates is divided by (docs/decisions/0005): the weights of those who
// contributed, or of every counted member.
enum class Divisor { kContributors, kMembers };

class Pace {
 public:
  virtual ~Pace() = default;

  virtual Apply apply() const = 0;
  virtual Divisor divisor() const = 0;

  // Do the held updates make a round now? `members` is not empty.
  virtual bool closes(std::span<const PaceRow> members) const = 0;

  // May the worker of `row`, whose update is settled, start its next iteration?
  virtual bool releases(std::span<const PaceRow> members, const PaceRow& row) const = 0;

  // Elastic: workers say when they have their minimum and go on until they are told to cut.
  virtual bool elastic() const { return false; }
  // Elastic only: time to tell everybody to cut?
  virtual bool cuts(std::span<const PaceRow>) const { return false; }

  // Why a worker waits, for people: "its round waits for the others".
  virtual const char* waiting_reason() const = 0;
};

struct PaceInfo {
  const char* name;
  const char* description;
};
std::span<const PaceInfo> paces();

// From "bsp" or "ssp:3". Errors: kInvalidArgument with the names or the parameter's form.
Result<std::unique_ptr<Pace>> make_pace(std::string_view text);

}  // namespace paceline
