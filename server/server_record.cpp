#include "server/server_record.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"

namespace paceline {

namespace {

void put_block(ByteWriter* out, ByteSpan bytes) {
  out->put(static_cast<uint32_t>(bytes.size()));
  out->put_bytes(bytes);
}

Result<ByteSpan> get_block(ByteReader* in, uint64_t bytes_max) {
  PACELINE_ASSIGN(const uint32_t length, in->get<uint32_t>());
  if (length > bytes_max)
    return fail(Code::kCorrupt, "a block of %u bytes, at most %llu", length,
                static_cast<unsigned long long>(bytes_max));
  return in->get_bytes(length);
}

Result<uint32_t> get_count(ByteReader* in, uint32_t count_max, const char* what) {
  PACELINE_ASSIGN(const uint32_t count, in->get<uint32_t>());
  if (count > count_max) return fail(Code::kCorrupt, "%u %s, at most %u", count, what, count_max);
  return count;
}

void put_statistics(ByteWriter* out, const Statistics& statistics) {
  out->put(statistics.rows);
  put_block(out, std::as_bytes(std::span(statistics.values)));
}

// As they were; whoever takes them checks them against the model.
Result<Statistics> get_statistics(ByteReader* in) {
  Statistics statistics;
  PACELINE_ASSIGN(statistics.rows, in->get<uint64_t>());
  PACELINE_ASSIGN(const ByteSpan raw, get_block(in, kStatisticElementsMax * sizeof(float)));
  if (raw.size() % sizeof(float) != 0)
    return fail(Code::kCorrupt, "%zu bytes of statistics", raw.size());
  statistics.values.resize(raw.size() / sizeof(float));
  std::ranges::copy(raw, std::as_writable_bytes(std::span(statistics.values)).begin());
  return statistics;
}

void put_granted_update(ByteWriter* out, const Member& member) {
  const HeldUpdate& held = *member.held;
  out->put(held.sequence);
  out->put(held.base_publication);
  out->put(held.steps);
  out->put(member.weight);
  out->put(static_cast<uint32_t>(held.chunks.size()));
  for (const Bytes& chunk : held.chunks) put_block(out, chunk);
  put_statistics(out, held.statistics);
}

Status get_granted_update(ByteReader* in, const ParameterLayout& layout, Member* member) {
  HeldUpdate held;
  held.granted = true;
  PACELINE_ASSIGN(held.sequence, in->get<uint64_t>());
  PACELINE_ASSIGN(held.base_publication, in->get<uint64_t>());
  PACELINE_ASSIGN(held.steps, in->get<uint32_t>());
  PACELINE_ASSIGN(const float weight, in->get<float>());
  if (!(weight >= 0 && weight <= 1)) return fail(Code::kCorrupt, "the weight of a held update");
  PACELINE_ASSIGN(const uint32_t count, get_count(in, layout.chunk_count(), "chunks"));
  if (count != 0 && count != layout.chunk_count())
    return fail(Code::kCorrupt, "%u chunks, the model has %u", count, layout.chunk_count());
  for (uint32_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN(const ByteSpan chunk, get_block(in, kChunkBytesMax));
    held.chunks.emplace_back(chunk.begin(), chunk.end());
    PACELINE_ASSIGN(const PayloadView view, verify_payload(layout, i, held.chunks.back()));
    held.views.push_back(view);
  }
  PACELINE_ASSIGN(held.statistics, get_statistics(in));
  PACELINE_TRY(StatisticsPool(layout).check(held.statistics, UINT64_MAX));
  member->weight = weight;
  member->held = std::move(held);
  return {};
}

Result<RecordedUpdate> get_update(ByteReader* in) {
  RecordedUpdate update;
  PACELINE_ASSIGN(update.worker, in->get<uint32_t>());
  PACELINE_ASSIGN(update.sequence, in->get<uint64_t>());
  PACELINE_ASSIGN(update.steps, in->get<uint32_t>());
  PACELINE_ASSIGN(update.weight, in->get<float>());
  PACELINE_ASSIGN(update.bytes, in->get<uint64_t>());
  if (update.worker >= kWorkersMax || !(update.weight >= 0 && update.weight <= 1))
    return fail(Code::kCorrupt, "an update of worker %u", update.worker);
  PACELINE_ASSIGN(const uint32_t count, get_count(in, kModelChunksMax + kTensorsMax, "chunks"));
  for (uint32_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN(const ByteSpan chunk, get_block(in, kChunkBytesMax));
    update.chunks.push_back(chunk);
  }
  PACELINE_ASSIGN(update.statistics, get_statistics(in));
  return update;
}

Result<ModelMove> get_move(ByteReader* in) {
  ModelMove move;
  PACELINE_ASSIGN(const uint8_t kind, in->get<uint8_t>());
  if (kind > static_cast<uint8_t>(ModelMove::Kind::kDrop))
    return fail(Code::kCorrupt, "move %u of the model", kind);
  move.kind = static_cast<ModelMove::Kind>(kind);
  PACELINE_ASSIGN(move.divisor, in->get<float>());
  PACELINE_ASSIGN(move.keep, in->get<float>());
  if (!std::isfinite(move.divisor) || !std::isfinite(move.keep))
    return fail(Code::kCorrupt, "a divisor or factor that is not finite");
  PACELINE_ASSIGN(const uint8_t codec, in->get<uint8_t>());
  PACELINE_ASSIGN(move.codec, codec_by_wire_id(codec));
  PACELINE_ASSIGN(move.checksum, in->get<uint32_t>());
  PACELINE_ASSIGN(move.remembered_rows, in->get<double>());
  if (!(move.remembered_rows >= 0)) return fail(Code::kCorrupt, "rows that are remembered");
  PACELINE_ASSIGN(move.master, get_block(in, kModelElementsMax * sizeof(float)));
  PACELINE_ASSIGN(const uint32_t count, get_count(in, kWorkersMax, "updates"));
  for (uint32_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN(RecordedUpdate update, get_update(in));
    move.updates.push_back(std::move(update));
  }
  return move;
}

}  // namespace

void put_member(ByteWriter* out, const Member& member) {
  const bool granted = member.held && member.held->granted;
  const bool comes_again = member.held && !granted;
  out->put_text(member.name);
  out->put(member.incarnation);
  out->put(member.last_settled);
  out->put(static_cast<uint8_t>(member.verdict));
  out->put(static_cast<uint8_t>(member.left));
  out->put(static_cast<uint8_t>(member.refusal));
  out->put(member.next_sequence);
  out->put(member.clock - (comes_again ? 1 : 0));
  out->put(member.steps - (comes_again ? member.held->steps : 0));
  out->put(member.exchanges - (comes_again ? 1 : 0));
  out->put(member.waited_us - (comes_again ? member.held->waited_us : 0));
  out->put(static_cast<uint8_t>(granted));
  if (granted) put_granted_update(out, member);
}

Status get_member(ByteReader* in, const ParameterLayout& layout, Member* member) {
  PACELINE_ASSIGN(member->name, in->get_text(kNameBytesMax));
  const char* name = member->name.c_str();
  PACELINE_ASSIGN(member->incarnation, in->get<uint64_t>());
  PACELINE_ASSIGN(member->last_settled, in->get<uint64_t>());
  PACELINE_ASSIGN(const uint8_t verdict, in->get<uint8_t>());
  if (verdict > static_cast<uint8_t>(Verdict::kRefused)) return fail(Code::kCorrupt, "a verdict");
  member->verdict = static_cast<Verdict>(verdict);
  PACELINE_ASSIGN(const uint8_t left, in->get<uint8_t>());
  if (left > 1) return fail(Code::kCorrupt, "whether worker '%s' has left", name);
  member->left = left == 1;
  member->awaited = !member->left;
  PACELINE_ASSIGN(const uint8_t refusal, in->get<uint8_t>());
  if (refusal > static_cast<uint8_t>(RefusalClass::kNotAllowed))
    return fail(Code::kCorrupt, "a refusal");
  member->refusal = static_cast<RefusalClass>(refusal);
  PACELINE_ASSIGN(member->next_sequence, in->get<uint64_t>());
  PACELINE_ASSIGN(member->clock, in->get<uint64_t>());
  PACELINE_ASSIGN(member->steps, in->get<uint64_t>());
  PACELINE_ASSIGN(member->exchanges, in->get<uint64_t>());
  PACELINE_ASSIGN(member->waited_us, in->get<uint64_t>());
  PACELINE_ASSIGN(const uint8_t holds, in->get<uint8_t>());
  if (holds > 1) return fail(Code::kCorrupt, "what worker '%s' left behind", name);
  member->held.reset();
  return holds == 1 ? get_granted_update(in, layout, member) : Status();
}

void put_move(ByteWriter* out, const ModelMove& move) {
  out->put(static_cast<uint8_t>(move.kind));
  out->put(move.divisor);
  out->put(move.keep);
  out->put(static_cast<uint8_t>(move.codec));
  out->put(move.checksum);
  out->put(move.remembered_rows);
  put_block(out, move.master);
  out->put(static_cast<uint32_t>(move.updates.size()));
  for (const RecordedUpdate& update : move.updates) {
    out->put(update.worker);
    out->put(update.sequence);
    out->put(update.steps);
    out->put(update.weight);
    out->put(update.bytes);
    out->put(static_cast<uint32_t>(update.chunks.size()));
    for (const ByteSpan chunk : update.chunks) put_block(out, chunk);
    put_statistics(out, update.statistics);
  }
}

void put_record(ByteWriter* out, const ServerRecord& numbers, uint32_t move_count, ByteSpan moves) {
  out->put(numbers.publication);
  out->put(numbers.version);
  out->put(numbers.round);
  out->put(numbers.epoch);
  out->put(numbers.evaluation_count);
  out->put(numbers.progress);
  out->put(static_cast<uint32_t>(numbers.members.size()));
  for (const RecordedMember& member : numbers.members) {
    out->put(member.id);
    put_block(out, member.row);
  }
  put_block(out, numbers.director);
  out->put(move_count);
  out->put_bytes(moves);
}

Result<ServerRecord> parse_record(ByteSpan bytes) {
  ByteReader in(bytes);
  ServerRecord record;
  PACELINE_ASSIGN(record.publication, in.get<uint64_t>());
  PACELINE_ASSIGN(record.version, in.get<uint64_t>());
  PACELINE_ASSIGN(record.round, in.get<uint64_t>());
  PACELINE_ASSIGN(record.epoch, in.get<uint64_t>());
  PACELINE_ASSIGN(record.evaluation_count, in.get<uint64_t>());
  PACELINE_ASSIGN(record.progress, in.get<double>());
  PACELINE_ASSIGN(const uint32_t members, get_count(&in, kWorkersMax, "workers"));
  for (uint32_t i = 0; i < members; ++i) {
    RecordedMember member;
    PACELINE_ASSIGN(member.id, in.get<uint32_t>());
    PACELINE_ASSIGN(member.row, get_block(&in, bytes.size()));
    record.members.push_back(member);
  }
  PACELINE_ASSIGN(record.director, get_block(&in, bytes.size()));
  PACELINE_ASSIGN(const uint32_t moves, in.get<uint32_t>());
  for (uint32_t i = 0; i < moves; ++i) {
    PACELINE_ASSIGN(ModelMove move, get_move(&in));
    record.moves.push_back(std::move(move));
  }
  if (in.left() != 0) return fail(Code::kCorrupt, "%zu bytes behind a record", in.left());
  return record;
}

}  // namespace paceline
