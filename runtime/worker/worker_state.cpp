#include "runtime/worker/worker_state.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "runtime/base/limits.h"

namespace paceline {

namespace {

constexpr uint32_t kMagic = 0x574C4350;  // "PCLW"; for ever
constexpr uint32_t kVersion = 3;
constexpr uint32_t kVersionWithoutStatistics = 2;  // still read
constexpr uint32_t kVersionWithoutSquares = 1;     // likewise

void put_norms(const std::deque<double>& norms, ByteWriter* out) {
  out->put(static_cast<uint32_t>(norms.size()));
  for (const double value : norms) out->put(value);
}

Result<std::deque<double>> get_norms(ByteReader* in) {
  PACELINE_ASSIGN(const uint32_t count, in->get<uint32_t>());
  if (count > kNormWindow) return fail(Code::kCorrupt, "%u norms, at most %zu", count, kNormWindow);
  std::deque<double> norms;
  for (uint32_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN(const double value, in->get<double>());
    if (!(std::isfinite(value) && value >= 0)) return fail(Code::kCorrupt, "a norm");
    norms.push_back(value);
  }
  return norms;
}

Result<std::vector<float>> get_flat(size_t count, ByteReader* in) {
  PACELINE_ASSIGN(const ByteSpan raw, in->get_bytes(count * sizeof(float)));
  std::vector<float> flat(count);
  std::ranges::copy(raw, std::as_writable_bytes(std::span(flat)).begin());
  for (const float value : flat)
    if (!(std::fabs(value) < 0x1p118f)) return fail(Code::kCorrupt, "a value that is not finite");
  return flat;
}

Result<OptimizerState> get_optimizer(uint32_t version, size_t count, ByteReader* in) {
  OptimizerState optimizer;
  PACELINE_ASSIGN(optimizer.momentum, get_flat(count, in));
  if (version == kVersionWithoutSquares) return optimizer;
  PACELINE_ASSIGN(optimizer.steps, in->get<uint32_t>());
  PACELINE_ASSIGN(const uint8_t has_squares, in->get<uint8_t>());
  if (has_squares > 1) return fail(Code::kCorrupt, "whether the optimizer has squares");
  if (has_squares == 1) {
    PACELINE_ASSIGN(optimizer.squares, get_flat(count, in));
  }
  return optimizer;
}

void put_pending(const PendingUpdate& pending, ByteWriter* out) {
  out->put(pending.sequence);
  out->put(pending.base_publication);
  out->put(pending.base_checksum);
  out->put(pending.generation);
  out->put(pending.round);
  out->put(pending.steps);
  out->put(static_cast<uint8_t>(pending.has_update));
  out->put(pending.training_loss);
  out->put(pending.waited_us);
  if (!pending.has_update) return;
  out->put(static_cast<uint8_t>(pending.update.codec));
  out->put(pending.update.checksum);
  out->put(static_cast<uint32_t>(pending.update.chunks.size()));
  for (const Bytes& chunk : pending.update.chunks) {
    out->put(static_cast<uint32_t>(chunk.size()));
    out->put_bytes(chunk);
  }
  out->put(pending.statistics.rows);
  out->put(static_cast<uint32_t>(pending.statistics.values.size()));
  out->put_bytes(std::as_bytes(std::span(pending.statistics.values)));
}

Result<Statistics> get_statistics(ByteReader* in) {
  Statistics statistics;
  PACELINE_ASSIGN(statistics.rows, in->get<uint64_t>());
  PACELINE_ASSIGN(const uint32_t count, in->get<uint32_t>());
  if (count > kStatisticElementsMax) return fail(Code::kCorrupt, "%u statistics", count);
  PACELINE_ASSIGN(statistics.values, get_flat(count, in));
  return statistics;
}

Result<PendingUpdate> get_pending(uint32_t version, ByteReader* in) {
  PendingUpdate pending;
  PACELINE_ASSIGN(pending.sequence, in->get<uint64_t>());
  PACELINE_ASSIGN(pending.base_publication, in->get<uint64_t>());
  PACELINE_ASSIGN(pending.base_checksum, in->get<uint32_t>());
  PACELINE_ASSIGN(pending.generation, in->get<uint64_t>());
  PACELINE_ASSIGN(pending.round, in->get<uint64_t>());
  PACELINE_ASSIGN(pending.steps, in->get<uint32_t>());
  PACELINE_ASSIGN(const uint8_t has_update, in->get<uint8_t>());
  PACELINE_ASSIGN(pending.training_loss, in->get<float>());
  PACELINE_ASSIGN(pending.waited_us, in->get<TimeUs>());
  if (has_update > 1) return fail(Code::kCorrupt, "whether there is an update");
  pending.has_update = has_update == 1;
  if (!pending.has_update) return pending;
  PACELINE_ASSIGN(const uint8_t codec, in->get<uint8_t>());
  PACELINE_ASSIGN(pending.update.codec, codec_by_wire_id(codec));
  PACELINE_ASSIGN(pending.update.checksum, in->get<uint32_t>());
  PACELINE_ASSIGN(const uint32_t chunks, in->get<uint32_t>());
  if (chunks > kModelChunksMax) return fail(Code::kCorrupt, "%u chunks", chunks);
  for (uint32_t i = 0; i < chunks; ++i) {
    PACELINE_ASSIGN(const uint32_t length, in->get<uint32_t>());
    if (length > kChunkBytesMax) return fail(Code::kCorrupt, "a chunk of %u bytes", length);
    PACELINE_ASSIGN(const ByteSpan chunk, in->get_bytes(length));
    pending.update.chunks.emplace_back(chunk.begin(), chunk.end());
  }
  if (version > kVersionWithoutStatistics) {
    PACELINE_ASSIGN(pending.statistics, get_statistics(in));
  }
  return pending;
}

}  // namespace

Bytes encode_state(const WorkerState& state) {
  ByteWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put_text(state.name);
  out.put(state.run_checksum);
  out.put(state.generation);
  out.put(state.last_settled);
  out.put(state.next_sequence);
  out.put(state.round);
  out.put(state.tau);
  out.put(state.cursor.epoch);
  out.put(state.cursor.row);
  out.put(state.lost_gradient_total);
  put_norms(state.update_norms, &out);
  put_norms(state.residual_norms, &out);
  out.put(uint64_t{state.residual.size()});
  out.put_bytes(std::as_bytes(std::span(state.residual)));
  out.put_bytes(std::as_bytes(std::span(state.optimizer.momentum)));
  out.put(state.optimizer.steps);
  out.put(static_cast<uint8_t>(!state.optimizer.squares.empty()));
  out.put_bytes(std::as_bytes(std::span(state.optimizer.squares)));
  out.put(static_cast<uint8_t>(state.pending.has_value()));
  if (state.pending) put_pending(*state.pending, &out);
  return out.take();
}

Result<WorkerState> decode_state(ByteSpan bytes) {
  ByteReader in(bytes);
  PACELINE_ASSIGN(const uint32_t magic, in.get<uint32_t>());
  PACELINE_ASSIGN(const uint32_t version, in.get<uint32_t>());
  if (magic != kMagic || version < kVersionWithoutSquares || version > kVersion)
    return fail(Code::kCorrupt, "not a worker's state of version %u to %u", kVersionWithoutSquares,
                kVersion);
  WorkerState state;
  PACELINE_ASSIGN(state.name, in.get_text(kNameBytesMax));
  PACELINE_ASSIGN(state.run_checksum, in.get<uint64_t>());
  PACELINE_ASSIGN(state.generation, in.get<uint64_t>());
  PACELINE_ASSIGN(state.last_settled, in.get<uint64_t>());
  PACELINE_ASSIGN(state.next_sequence, in.get<uint64_t>());
  PACELINE_ASSIGN(state.round, in.get<uint64_t>());
  PACELINE_ASSIGN(state.tau, in.get<uint32_t>());
  PACELINE_ASSIGN(state.cursor.epoch, in.get<uint64_t>());
  PACELINE_ASSIGN(state.cursor.row, in.get<uint64_t>());
  PACELINE_ASSIGN(state.lost_gradient_total, in.get<double>());
  PACELINE_ASSIGN(state.update_norms, get_norms(&in));
  PACELINE_ASSIGN(state.residual_norms, get_norms(&in));
  PACELINE_ASSIGN(const uint64_t elements, in.get<uint64_t>());
  if (elements > kModelElementsMax)
    return fail(Code::kCorrupt, "%llu parameters", static_cast<unsigned long long>(elements));
  PACELINE_ASSIGN(state.residual, get_flat(static_cast<size_t>(elements), &in));
  PACELINE_ASSIGN(state.optimizer, get_optimizer(version, static_cast<size_t>(elements), &in));
  PACELINE_ASSIGN(const uint8_t has_pending, in.get<uint8_t>());
  if (has_pending > 1) return fail(Code::kCorrupt, "whether an update is pending");
  if (has_pending == 1) {
    PACELINE_ASSIGN(state.pending, get_pending(version, &in));
    if (state.pending->sequence <= state.last_settled)
      return fail(Code::kCorrupt, "an update is pending and settled");
  }
  if (in.left() > 0) return fail(Code::kCorrupt, "%zu bytes too many", in.left());
  return state;
}

bool still_true(const WorkerState& state, const Welcome& welcome) {
  const uint64_t settled = welcome.last_settled;
  const bool pending_settled = state.pending && settled == state.pending->sequence;
  if (welcome.generation != state.generation) {
    // The server went back to an older state of its own: what it never heard of is still ours.
    return !welcome.held && (settled <= state.last_settled || pending_settled);
  }
  // A leaver's last update is granted while the server still holds it.
  if (settled < state.last_settled) return welcome.held && !state.pending;
  // An update that the server holds is the pending one, or one that was cut after the save.
  if (settled == state.last_settled) return state.pending.has_value() || !welcome.held;
  return pending_settled && !welcome.held;
}

}  // namespace paceline
