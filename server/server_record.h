// What a server writes down of an event that must outlive it: how the model moved, in what order,
// and which of its books changed. Decisions are recorded, not their reasons: a record leads another
// core from the same state to the same state, whatever made the first one decide so.
//
// Pure. Spans in a parsed record point into its bytes; those come from a file and may hold
// anything.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/quant/codec.h"
#include "server/member.h"

namespace paceline {

enum class Recording {
  kOff,
  kRecovery,  // of a step the shorter of payloads and the model that they led to
  kPayloads,  // always the payloads, as far as they fit into a record
};

struct RecordedUpdate {
  uint32_t worker = 0;  // id
  uint64_t sequence = 0;
  uint32_t steps = 0;
  float weight = 0;
  uint64_t bytes = 0;            // of its payloads
  std::vector<ByteSpan> chunks;  // none: the step was not finite, or the master is recorded instead
  Statistics statistics;         // none: the model has none, or they were left out
};

struct ModelMove {
  enum class Kind : uint8_t {
    kApply,    // a close: `updates` divided by `divisor`, after `keep`
    kDecay,    // the master by `keep`
    kPublish,  // by `codec`; the publication has `checksum`
    kDrop,     // the master was not finite and is the published model again
  };
  Kind kind = Kind::kApply;
  float divisor = 0;
  float keep = 1;
  std::vector<RecordedUpdate> updates;
  ByteSpan master;  // afterwards; empty: it follows from the payloads
  CodecId codec = CodecId::kRaw32;
  uint32_t checksum = 0;
  double remembered_rows = 0;  // what the statistics of before weigh at most
};

struct RecordedMember {
  uint32_t id = 0;
  ByteSpan row;  // as put_member() writes it
};

struct ServerRecord {
  uint64_t publication = 0;
  uint64_t version = 0;
  uint64_t round = 0;
  uint64_t epoch = 0;
  uint64_t evaluation_count = 0;
  double progress = 0;
  std::vector<RecordedMember> members;  // whose books changed
  ByteSpan director;                    // empty: as before
  std::vector<ModelMove> moves;
};

// What of a member outlives the server. An update that is held for a round is sent again and is not
// in it, but for a leaver's, who has had its answer.
void put_member(ByteWriter* out, const Member& member);
// Into `member`, all of which put_member() wrote. Errors: kCorrupt.
Status get_member(ByteReader* in, const ParameterLayout& layout, Member* member);

void put_move(ByteWriter* out, const ModelMove& move);

// `moves`: `move_count` of them, as put_move() wrote them one behind the other.
void put_record(ByteWriter* out, const ServerRecord& numbers, uint32_t move_count, ByteSpan moves);
// Errors: kCorrupt.
Result<ServerRecord> parse_record(ByteSpan bytes);

}  // namespace paceline
