// What must outlive this server is written down, and carried out again by the next one.
#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/quant/encode_chunks.h"
#include "server/server_core.h"

namespace paceline {

namespace {

// A record with more payloads holds the model instead, whatever is wanted.
constexpr size_t kRecordedPayloadBytesMax = size_t{256} << 20;
constexpr double kClosesRemembered = 9;  // beside the newest one

}  // namespace

void ServerCore::note_move(const ModelMove& move) {
  must_record_ = true;
  if (options_.recording == Recording::kOff) return;
  put_move(&moves_, move);
  ++move_count_;
}

// A close's contributors by Chan's rule, in order; what was there before weighs at most as much as
// the fleet's last closes did. Returns that bound.
double ServerCore::pool_statistics(std::span<Member* const> contributors) {
  if (!statistics_.used()) return 0;
  double rows = 0, senders = 0;
  for (const Member* member : contributors) {
    rows += static_cast<double>(member->held->statistics.rows);
    senders += member->held->statistics.rows > 0 ? 1 : 0;
  }
  if (senders == 0) return 0;
  const auto members = static_cast<double>(
      std::ranges::count_if(members_, [](const Member& member) { return member.counted; }));
  const double remembered = kClosesRemembered * rows * std::max(1.0, members / senders);
  statistics_.weigh_at_most(remembered);
  for (const Member* member : contributors) statistics_.add(member->held->statistics);
  return remembered;
}

// After the master has moved, while the updates are still held; their statistics move here.
// `by_rule`: another one than the weighted mean, which alone is carried out again.
void ServerCore::note_applied(std::span<Member* const> contributors, float divisor, float keep,
                              bool by_rule) {
  must_record_ = true;
  const double remembered_rows = pool_statistics(contributors);
  if (options_.recording == Recording::kOff) return;
  ModelMove move;
  move.remembered_rows = remembered_rows;
  move.divisor = divisor;
  move.keep = keep;
  size_t bytes = 0;
  for (const Member* member : contributors) {
    RecordedUpdate update{
        member->id, member->held->sequence,  member->held->steps, weight_of(*member), 0,
        {},         member->held->statistics};
    for (const Bytes& chunk : member->held->chunks) {
      update.chunks.emplace_back(chunk);
      update.bytes += chunk.size();
    }
    bytes += static_cast<size_t>(update.bytes);
    move.updates.push_back(std::move(update));
  }
  const ByteSpan master = std::as_bytes(std::span(master_));
  const bool drops_payloads =
      bytes > kRecordedPayloadBytesMax ||
      (options_.recording == Recording::kRecovery && (by_rule || bytes > master.size()));
  if (by_rule || drops_payloads) move.master = master;
  if (drops_payloads)
    for (RecordedUpdate& update : move.updates) update.chunks.clear();
  note_move(move);
}

Bytes ServerCore::take_record(bool everything) {
  if (options_.recording == Recording::kOff || !(must_record_ || everything)) return {};
  must_record_ = false;
  ServerRecord record{publication_, version_, round_, epoch_, evaluation_count_,
                      progress_,    {},       {},     {}};
  ByteWriter rows;
  std::vector<size_t> ends;
  for (Member& member : members_) {
    if (!std::exchange(member.unrecorded, false)) continue;
    record.members.push_back({member.id, {}});
    put_member(&rows, member);
    ends.push_back(rows.size());
  }
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++])
    record.members[i].row = ByteSpan(rows.bytes()).subspan(begin, ends[i] - begin);
  ByteWriter director;
  director_.save(&director);
  if (director.bytes() != recorded_director_) {
    recorded_director_ = director.take();
    record.director = recorded_director_;
  }
  ByteWriter out;
  put_record(&out, record, std::exchange(move_count_, 0), moves_.take());
  return out.take();
}

// As one life did it, from what it wrote down.
Status ServerCore::redo(const ModelMove& move) {
  switch (move.kind) {
    case ModelMove::Kind::kApply:
      PACELINE_TRY(redo_apply(move));
      break;
    case ModelMove::Kind::kDecay:
      decay(move.keep);
      break;
    case ModelMove::Kind::kPublish:
      end_publication(move.codec, encode_delta(layout(), move.codec, next_delta_key(), master_,
                                               published_, &encoded_));
      if (checksum_ != move.checksum)
        return fail(Code::kCorrupt, "publication %llu has checksum %08x, it had %08x",
                    static_cast<unsigned long long>(publication_), checksum_, move.checksum);
      break;
    case ModelMove::Kind::kDrop:
      master_ = published_;
      break;
  }
  return {};
}

Status ServerCore::redo_apply(const ModelMove& move) {
  if (!move.master.empty()) {
    if (move.master.size() != master_.size() * sizeof(float))
      return fail(Code::kCorrupt, "a model of %zu bytes", move.master.size());
    std::memcpy(master_.data(), move.master.data(), move.master.size());
    if (!pads_are_zero(layout(), master_))
      return fail(Code::kCorrupt, "a model with values between its tensors");
  } else {
    payloads_.clear();
    for (uint32_t chunk = 0; chunk < layout().chunk_count(); ++chunk)
      for (const RecordedUpdate& update : move.updates) {
        if (update.chunks.empty()) continue;
        if (update.chunks.size() != layout().chunk_count())
          return fail(Code::kCorrupt, "an update of %zu chunks", update.chunks.size());
        PACELINE_ASSIGN(const PayloadView view,
                        verify_payload(layout(), chunk, update.chunks[chunk]));
        payloads_.push_back({view, update.weight});
      }
    move_master(move.divisor, move.keep);
    payloads_.clear();
  }
  bool any = false;
  for (const RecordedUpdate& update : move.updates) {
    PACELINE_TRY(statistics_.check(update.statistics, UINT64_MAX));
    any = any || update.statistics.rows > 0;
  }
  if (any) statistics_.weigh_at_most(move.remembered_rows);
  for (const RecordedUpdate& update : move.updates) statistics_.add(update.statistics);
  ++version_;
  applied_since_publication_ += move.updates.size();
  return {};
}

Status ServerCore::redo(ByteSpan bytes) {
  PACELINE_ASSIGN(const ServerRecord record, parse_record(bytes));
  for (const ModelMove& move : record.moves) PACELINE_TRY(redo(move));
  moves_ = {};
  move_count_ = 0;
  if (publication_ != record.publication || version_ != record.version)
    return fail(Code::kCorrupt, "publication %llu, version %llu; it was %llu, %llu",
                static_cast<unsigned long long>(publication_),
                static_cast<unsigned long long>(version_),
                static_cast<unsigned long long>(record.publication),
                static_cast<unsigned long long>(record.version));
  round_ = record.round;
  epoch_ = record.epoch;
  evaluation_count_ = record.evaluation_count;
  progress_ = record.progress;
  for (const RecordedMember& member : record.members) {
    ByteReader row(member.row);
    PACELINE_TRY(load_member(&row, member.id));
  }
  if (record.director.empty()) return {};
  ByteReader director(record.director);
  return director_.restore(&director);
}

// The worker of this id, who may be new.
Status ServerCore::load_member(ByteReader* in, uint32_t id) {
  Member read;
  PACELINE_TRY(get_member(in, layout(), &read));
  Member& member = member_named(read.name);
  if (member.id != id)
    return fail(Code::kCorrupt, "worker '%s' has another place", read.name.c_str());
  read.id = id;
  member = std::move(read);
  return {};
}

void ServerCore::resume() {
  if (options_.pace_auto()) follow_rule(director_.pace().now());
  must_record_ = false;
  ByteWriter director;
  director_.save(&director);
  recorded_director_ = director.take();
  compose_directive();
}

}  // namespace paceline
