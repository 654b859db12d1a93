// The model goes out: deltas that were encoded once, or an exact key frame to who is too far
// behind.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "server/server_core.h"

namespace paceline {

namespace {

constexpr TimeUs kKeyFrameAgeMax = 60'000'000;  // an older one is replaced when somebody asks
// Kept deltas are together as long as so many key frames, within bounds: who is further behind is
// served better by a key frame. The numbers of more are known, for an update's staleness.
constexpr size_t kDeltaKeyFramesKept = 4;
constexpr size_t kDeltaBytesKeptMin = 1024 * 1024;
constexpr size_t kKeyFramesKept = 2;  // the newest, and one that may still be in transfer

}  // namespace

void ServerCore::keep_delta(Delta delta) {
  delta_bytes_ += delta.bytes;
  deltas_.push_back(std::move(delta));
  const size_t bytes_max = std::clamp(kDeltaKeyFramesKept * master_.size() * sizeof(float),
                                      kDeltaBytesKeptMin, kDeltaBytesKeptMax);
  while (delta_bytes_ > bytes_max) {
    Delta& oldest = deltas_[bare_deltas_++];
    delta_bytes_ -= oldest.bytes;
    oldest.chunks = {};
    oldest.statistics = {};
  }
  if (deltas_.size() <= kDeltasKeptMax) return;
  if (bare_deltas_ > 0)
    --bare_deltas_;
  else
    delta_bytes_ -= deltas_.front().bytes;
  deltas_.pop_front();
}

bool ServerCore::has_delta_from(uint64_t publication) const {
  return bare_deltas_ < deltas_.size() && publication >= deltas_[bare_deltas_].from &&
         publication < publication_;
}

bool ServerCore::start_is_near() const {
  if (publication_ == kFirstPublication) return true;
  return has_delta_from(kFirstPublication) && delta_bytes_ < master_.size() * sizeof(float);
}

void ServerCore::on_fetch(Member& member, RequestToken token, const Fetch& fetch, TimeUs now) {
  if (fetch.generation != generation_)
    return reply(
        token,
        Refused{0, RefusalClass::kStaleSession, "another generation has begun", "say hello again"},
        member.session);
  if (fetch.chunk >= layout().chunk_count())
    return reply(
        token,
        Refused{0, RefusalClass::kLate,
                format_text("the model has %u chunks", layout().chunk_count()), "say hello again"},
        member.session);
  if (fetch.from == 0 || fetch.exact || !has_delta_from(fetch.from))
    return send_key_frame(member, token, fetch, now);
  const Delta& delta = deltas_[static_cast<size_t>(fetch.from - deltas_.front().from)];
  PACELINE_CHECK(delta.from == fetch.from);
  Fetched answer;
  answer.generation = generation_;
  answer.from = fetch.from;
  answer.publication = fetch.from + 1;
  answer.chunk = fetch.chunk;
  answer.chunk_count = layout().chunk_count();
  answer.checksum = delta.checksum;
  answer.payload = delta.chunks[fetch.chunk];
  if (fetch.chunk + 1 == layout().chunk_count()) {
    member.fetched_publication = answer.publication;
    answer.statistics = delta.statistics;
  }
  member.fetched_bytes += answer.payload.size();
  ++member.fetches;
  reply(token, std::move(answer), member.session);
}

void ServerCore::send_key_frame(Member& member, RequestToken token, const Fetch& fetch,
                                TimeUs now) {
  const KeyFrame* frame = nullptr;
  if (fetch.chunk > 0) {
    // A transfer that has begun goes on with the same bits.
    const auto found = std::ranges::find(key_frames_, fetch.to, &KeyFrame::publication);
    if (found != key_frames_.end()) frame = &*found;
    if (frame == nullptr)
      return reply(
          token,
          Refused{0, RefusalClass::kLate, "this key frame is not kept any more", "say hello again"},
          member.session);
  } else {
    const bool usable = !key_frames_.empty() &&
                        now - key_frames_.back().made_at < kKeyFrameAgeMax &&
                        (key_frames_.back().publication == publication_ ||
                         has_delta_from(key_frames_.back().publication));
    if (!usable) {
      KeyFrame made;
      made.publication = publication_;
      made.checksum = checksum_;
      made.made_at = now;
      // An absolute publication, encoded as every other: what is added to zero is the model itself.
      std::vector<float> copy(published_.size(), 0.0f);
      const Status status =
          encode_delta(layout(), CodecId::kRaw32, {0, publication_}, published_, copy, &encoded_);
      PACELINE_CHECK(status.ok());
      made.chunks = encoded_.chunks;
      key_frames_.push_back(std::move(made));
      if (key_frames_.size() > kKeyFramesKept) key_frames_.pop_front();
    }
    frame = &key_frames_.back();
  }
  Fetched answer;
  answer.generation = generation_;
  answer.publication = frame->publication;
  answer.key_frame = true;
  answer.chunk = fetch.chunk;
  answer.chunk_count = layout().chunk_count();
  answer.checksum = frame->checksum;
  answer.payload = frame->chunks[fetch.chunk];
  if (fetch.chunk + 1 == layout().chunk_count()) member.fetched_publication = frame->publication;
  member.fetched_bytes += answer.payload.size();
  ++member.fetches;
  reply(token, std::move(answer), member.session);
}

}  // namespace paceline
