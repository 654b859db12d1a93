// What the server knows of one worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log_limit.h"
#include "runtime/content/content.h"
#include "runtime/quant/codec.h"
#include "runtime/train/statistics.h"
#include "runtime/wire/messages.h"
#include "server/norm_rule.h"

namespace paceline {

// Names a request that waits for its reply; the driver maps it to the connection. 0 = none.
using RequestToken = uint64_t;

// Chunks of an update that is not complete yet. Discarded whole at a new incarnation or sequence.
struct Staging {
  uint64_t sequence = 0;
  uint32_t checksum = 0;
  std::vector<Bytes> chunks;  // empty: not here yet
};

// A committed update that waits for its round.
struct HeldUpdate {
  uint64_t sequence = 0;
  uint64_t base_publication = 0;
  std::vector<Bytes> chunks;       // none: the worker's step was not finite; counts with weight 0
  std::vector<PayloadView> views;  // of `chunks`, verified
  Statistics statistics;           // checked
  uint32_t steps = 0;
  uint64_t waited_us = 0;  // as its exchange said
  bool granted = false;    // its worker has its answer, and will not send it again
  float clip = 1;          // factor that the norm rule puts on it
};

struct Parked {
  RequestToken token = 0;
  TimeUs since = 0;
};

// Fewer training rows: a worker observes, it gets the model and evaluates it, and is in no close.
inline constexpr uint64_t kTrainingRowsMin = 20;

// How far ahead of all that were seen a sequence may be: one false number must not use up the rest.
inline constexpr uint64_t kSequenceLeapMax = uint64_t{1} << 32;

// Another life that asks for the name of one that is at work.
struct Rival {
  uint64_t incarnation = 0;
  TimeUs since = 0;
  TimeUs last = 0;
};

struct Member {
  bool observes() const { return training_rows < kTrainingRowsMin; }
  bool leaps(uint64_t sequence) const {
    return sequence > next_sequence && sequence - next_sequence > kSequenceLeapMax;
  }

  uint32_t id = 0;  // rank in every sum; for ever
  std::string name;
  uint64_t incarnation = 0;
  uint64_t session = 0;

  // Durable: what makes a push idempotent over restarts of both ends.
  uint64_t last_settled = 0;
  Verdict verdict = Verdict::kNone;
  RefusalClass refusal = RefusalClass::kLate;  // of a refused one
  uint64_t next_sequence = 1;                  // above every sequence ever seen

  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  float weight = 0;  // bf16, of the present membership epoch

  bool eligible = false;    // has reported a step or a push since it last missed a deadline
  bool counted = false;     // a member of the open round
  bool ready = false;       // has its minimum of the open round
  bool left = false;        // said goodbye
  bool unrecorded = false;  // something that outlives the server has changed
  bool copied = false;      // its key is at work twice: neither may
  Rival rival;
  bool awaited = false;      // of an earlier life of this server, not heard of in this one
  uint64_t clock = 0;        // finished iterations, as the pace counts them
  uint32_t tau = 0;          // as it was granted last: its own link's or speed's; 0: never
  uint32_t slow_rounds = 0;  // in a row in which it was far slower than the others
  Staging staging;
  std::optional<HeldUpdate> held;
  Parked exchange;
  Parked ready_request;
  uint64_t fetched_publication = 0;  // the newest whose last chunk it got

  LinkEstimate link;
  TimeUs got_at = 0;  // when its last push was answered; 0: something else has come since
  // Sent to it since its last exchange.
  uint64_t fetched_bytes = 0;
  uint32_t fetches = 0;

  NormHistory norms;
  double usual_gap = 0;  // publications that its accepted updates' models were behind, smoothed

  // For people.
  LogLimit lines;  // about what it does wrong
  TimeUs last_seen = 0;
  TimeUs last_exchange = 0;
  uint64_t steps = 0;
  uint64_t exchanges = 0;
  uint64_t waited_us = 0;
  uint64_t refused = 0;
  uint64_t clipped = 0;
  uint64_t left_out = 0;  // updates that the round's rule took nothing of
  uint64_t strikes = 0;   // updates that were refused for their length or their content
  uint32_t step_us = 0;
  float training_loss = 0;
};
// A table that grows must move its members: a copy's views would point into what is gone.
static_assert(std::is_nothrow_move_constructible_v<Member>);

}  // namespace paceline
