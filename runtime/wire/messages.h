// What workers and servers say to each other. docs/wire_format.md tells the whole exchange.
//
// A worker asks, the server answers. encode() writes a FlatBuffers message (messages.fbs); decode()
// verifies it with limits of its own before anything is read: depth, tables, length, every enum and
// every bound of limits.h. What decode() returns is well formed, not yet meaningful: the cores hold
// every number against the model and the session.
//
// Numbers in messages.fbs are for ever. Protocol N and N-1 are both understood.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

inline constexpr uint32_t kProtocol = 2;     // what this build speaks
inline constexpr uint32_t kProtocolMin = 1;  // the oldest that it still understands
// The oldest whose workers know what a run's [privacy] asks of them.
inline constexpr uint32_t kProtocolPrivate = 2;

inline constexpr uint64_t kFirstPublication = 1;  // what training starts from; 0 = none

enum class Verdict : uint8_t { kNone, kApplied, kRefused };

// Why an update was not applied, and so what the worker does with it.
enum class RefusalClass : uint8_t {
  kLate,          // un-send: the payload goes back into the residual
  kContent,       // non-finite or out of norm: payload and residual are dropped
  kReset,         // too far behind: payload, residual and momentum are dropped, key frame
  kStaleSession,  // the session is gone: say Hello again; nothing is known of the update
  kNotAllowed,    // this worker, protocol or data does not fit; says how to mend it
};

// What the server wants of every worker until the next cut.
struct Directive {
  uint32_t tau = 1;        // local steps between exchanges, for the slowest
  uint32_t steps_cap = 1;  // a faster worker rests after so many
  uint8_t codec_up = 0;    // wire ids
  uint8_t codec_down = 0;
  float rate = 0;        // learning rate
  float keep = 1;        // factor on the master at a close (weight decay)
  bool elastic = false;  // true: say Ready at tau and go on until Close (compat)
  bool evaluate = true;  // evaluate the publication before the first step on it
  bool finish = false;   // the run is over: fetch the publication named, then stop
  std::string reason;    // why these values, for people
  bool operator==(const Directive&) const = default;
};

// One worker's evaluation of one publication on its hold-out. Integers: sums are exact, order-free.
struct Evaluation {
  uint64_t publication = 0;
  uint64_t rows = 0;
  uint64_t correct = 0;
  uint64_t loss_fixed16 = 0;  // as EvaluationCounts in train/trainer.h
  bool operator==(const Evaluation&) const = default;
};

struct Hello {
  std::string name;          // who this is where the transport has no identity of its own
  uint64_t incarnation = 0;  // one life of a worker process; rises
  uint32_t protocol_min = kProtocolMin;
  uint32_t protocol_max = kProtocol;
  std::string build;  // version text for logs
  // What it holds: names a model exactly. 0, 0 = nothing.
  uint64_t generation = 0;
  uint64_t publication = 0;
  uint32_t published_checksum = 0;
  // Sequence whose verdict it last carried out, and one that is still unanswered (0 = none).
  uint64_t last_settled = 0;
  uint64_t pending_sequence = 0;
  // Its data.
  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  uint32_t feature_count = 0;
  uint32_t class_count = 0;
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  uint64_t session = 0;    // goes into the envelope of every later request
  uint32_t worker_id = 0;  // rank in sums
  uint32_t protocol = 0;   // what is spoken from here on
  uint64_t generation = 0;
  uint64_t publication = 0;  // the newest
  uint32_t checksum = 0;     // of that publication
  uint64_t last_settled = 0;
  Verdict verdict = Verdict::kNone;  // of last_settled
  bool held = false;                 // a committed update of this worker waits for its round
  uint64_t next_sequence = 1;
  uint64_t round = 0;
  uint64_t seed = 0;  // of rotations and everything else that both ends draw
  uint32_t heartbeat_ms = 0;
  uint32_t exchange_timeout_ms = 0;
  std::string run;  // description of model and training (TOML)
  Directive directive;
  // Of the first publication, where deltas from it are shorter than a key frame; 0 = fetch that.
  uint32_t start_checksum = 0;
  bool operator==(const Welcome&) const = default;
};

struct Push {
  uint64_t incarnation = 0;
  uint64_t sequence = 0;
  uint32_t update_checksum = 0;
  uint32_t chunk = 0;
  uint32_t chunk_count = 0;
  Bytes payload;
  bool operator==(const Push&) const = default;
};
struct Got {
  uint64_t sequence = 0;
  uint32_t chunk = 0;
  bool operator==(const Got&) const = default;
};

struct Ready {
  uint64_t incarnation = 0;
  uint64_t round = 0;
  uint32_t steps = 0;  // done since the last cut
  bool operator==(const Ready&) const = default;
};
struct Close {
  uint64_t round = 0;
  bool operator==(const Close&) const = default;
};

struct Exchange {
  uint64_t incarnation = 0;
  uint64_t sequence = 0;
  uint32_t update_checksum = 0;
  uint32_t chunk_count = 0;  // 0: there is no update (the step was not finite)
  uint64_t generation = 0;
  uint64_t base_publication = 0;
  uint32_t base_checksum = 0;
  uint64_t round = 0;
  uint32_t steps = 0;       // since the last cut
  uint64_t clock = 0;       // finished steps of this worker since it joined
  uint32_t step_us = 0;     // smoothed time of one step
  uint64_t waited_us = 0;   // since the last exchange: at rest or for an answer, with nothing to do
  float training_loss = 0;  // mean over the steps
  bool leaving = false;
  std::vector<Evaluation> evaluations;
  // For choosing codecs; 0: not measured. Time from the cut to the last Got, and from asking for
  // the newest model to having it.
  uint32_t push_us = 0;
  uint32_t fetch_us = 0;
  // |u|, |u + residual| and the residual that is left.
  float update_norm = 0;
  float coded_norm = 0;
  float residual_norm = 0;
  // What batch normalisation has seen since the last cut: means and M2s (train/statistics.h).
  uint64_t statistic_rows = 0;
  std::vector<float> statistics;
  bool operator==(const Exchange&) const = default;
};
struct Granted {
  uint64_t sequence = 0;
  uint64_t generation = 0;
  uint64_t publication = 0;
  uint64_t version = 0;
  uint32_t checksum = 0;
  uint64_t round = 0;
  bool durable = false;
  Directive directive;
  bool operator==(const Granted&) const = default;
};
struct Refused {
  uint64_t sequence = 0;
  RefusalClass refusal = RefusalClass::kNotAllowed;
  std::string reason;
  std::string fix;
  bool operator==(const Refused&) const = default;
};
struct Missing {
  uint64_t sequence = 0;
  std::vector<uint32_t> chunks;  // push these again
  bool operator==(const Missing&) const = default;
};
// The reply was parked for half the client's time-out: ask the same again at once.
struct Wait {
  std::string reason;  // "waiting for 1 of 4 workers: greenhouse, 12 s"
  bool operator==(const Wait&) const = default;
};

struct Fetch {
  uint64_t generation = 0;
  uint64_t from = 0;  // publication held; 0 = none
  uint64_t to = 0;    // publication wanted: the one that Granted or Welcome named
  uint32_t chunk = 0;
  bool exact = false;  // ask for a key frame (after a checksum mismatch)
  bool operator==(const Fetch&) const = default;
};
// One chunk of the step from publication `from` to `publication`: the delta after `from` (then
// publication = from + 1; fetch again until `to`), or of a key frame (from = 0).
struct Fetched {
  uint64_t generation = 0;
  uint64_t from = 0;
  uint64_t publication = 0;
  bool key_frame = false;
  uint32_t chunk = 0;
  uint32_t chunk_count = 0;
  uint32_t checksum = 0;  // of `publication` when complete
  Bytes payload;          // codec payload; key frames: RAW32
  // With a delta's last chunk: the means and variances of `publication`, exactly.
  std::vector<float> statistics;
  bool operator==(const Fetched&) const = default;
};

struct Heartbeat {
  uint64_t incarnation = 0;
  uint64_t clock = 0;
  uint64_t round = 0;
  uint32_t step_us = 0;
  bool resting = false;  // at its cap or waiting for the pace
  bool operator==(const Heartbeat&) const = default;
};
struct HeartbeatReply {
  uint64_t generation = 0;
  uint64_t publication = 0;  // the newest
  uint64_t round = 0;        // the open one
  bool finish = false;
  bool operator==(const HeartbeatReply&) const = default;
};

// On the listener for enrolment alone. Without secret and key it asks who the server is.
struct Enrol {
  Bytes secret;
  Bytes public_key;  // SubjectPublicKeyInfo of the key that the board made
  bool operator==(const Enrol&) const = default;
};
struct Enrolled {
  std::string authority;    // PEM: whom this fleet believes
  std::string certificate;  // PEM; empty: nobody asked for one
  std::string name;         // of the board
  uint32_t port = 0;        // where the run is served
  bool operator==(const Enrolled&) const = default;
};

using Message =
    std::variant<Hello, Welcome, Push, Got, Ready, Close, Exchange, Granted, Refused, Missing, Wait,
                 Fetch, Fetched, Heartbeat, HeartbeatReply, Enrol, Enrolled>;

struct Envelope {
  uint64_t session = 0;  // 0 before Welcome
  Message message;
  bool operator==(const Envelope&) const = default;
};

const char* message_name(const Message& message);

// Bounds of limits.h are the sender's duty: PACELINE_CHECKed.
Bytes encode(const Envelope& envelope);

// Errors: kCorrupt, naming the field. Never allocates more than a few times bytes.size().
Result<Envelope> decode(ByteSpan bytes);

}  // namespace paceline
