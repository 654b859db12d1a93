// What codecs cost and keep back is measured here; runtime/content chooses from it.
#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

namespace {

// Publications from one look at the gap to the next: a look reads the model twice.
constexpr uint64_t kLookEvery = 5;
const char* codec_name(uint8_t wire_id) { return codec_info(static_cast<CodecId>(wire_id)).name; }

}  // namespace

// A committed update: how long its transfer took, and what its codec kept back.
void ServerCore::note_update(Member& member, const Exchange& exchange) {
  const HeldUpdate& update = *member.held;
  double bytes = 0;
  for (const Bytes& chunk : update.chunks) bytes += static_cast<double>(chunk.size());
  const auto chunks = static_cast<double>(update.chunks.size());
  member.link.observe_up({bytes, chunks, static_cast<double>(exchange.push_us)});
  member.link.observe_down({static_cast<double>(std::exchange(member.fetched_bytes, 0)),
                            static_cast<double>(std::exchange(member.fetches, 0)),
                            static_cast<double>(exchange.fetch_us)});
  if (update.views.empty()) return;
  director_.content().observe_update(
      update.views.front().codec(),
      {static_cast<double>(exchange.update_norm), static_cast<double>(exchange.coded_norm),
       static_cast<double>(exchange.residual_norm)});
}

void ServerCore::note_codecs(const Directive& before) {
  if (directive_.codec_up != before.codec_up || directive_.codec_down != before.codec_down) {
    // The next round still fetches what the old codec made.
    round_times_.clear();
    rounds_unmeasured_ = 1;
  }
  const auto tell = [](const char* way, uint8_t codec, const std::string& reason,
                       std::string* told) {
    if (reason == *told) return;
    log_info("codec %s: %s, because %s", way, codec_name(codec), reason.c_str());
    *told = reason;
  };
  tell("up", directive_.codec_up, content().reason_up(), &told_up_);
  tell("down", directive_.codec_down, content().reason_down(), &told_down_);
}

void ServerCore::look_before_publishing() {
  looked_norm_ = 0;
  if (publication_ % kLookEvery != 1 && !content().closing_gap()) return;
  looked_norm_ = measure_gap(layout(), master_, published_).norm;
}

void ServerCore::look_after_publishing(CodecId codec) {
  if (looked_norm_ <= 0) return;
  gap_ = measure_gap(layout(), master_, published_);
  director_.content().observe_publication(codec, {0, looked_norm_, gap_.norm}, gap_, publication_);
}

}  // namespace paceline
