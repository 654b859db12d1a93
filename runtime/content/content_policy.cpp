#include <algorithm>
#include <utility>

#include "runtime/content/content.h"

namespace paceline {

namespace {

// The warm-up: so many publications, or this share of a planned run. Codecs that keep back much
// wait for its end.
constexpr uint64_t kWarmupPublications = 20;
constexpr double kWarmupProgress = 0.05;
constexpr double kWarmupLostShareMax = 0.6;
constexpr const char* kFixedReason = "the run says so";
constexpr const char* kUnmeasuredReason = "the link is not measured yet";
constexpr const char* kWarmupReason = "the first residuals are as large as the updates";
// Another pair has to be so much cheaper, in so many rounds running, so many rounds after the last
// change.
constexpr double kClearlyCheaper = 0.95;
constexpr uint32_t kBetterRounds = 3;
constexpr uint32_t kRoundsBetweenChanges = 5;
// Rounds for which a codec that lost is left alone.
constexpr uint32_t kDistrustRounds = 100;

bool coarser_than_q8(CodecId codec) {
  return codec_info(codec).bits_per_element < codec_info(CodecId::kQ8).bits_per_element;
}

std::string names(CodecPair codecs) {
  return format_text("%s/%s", codec_info(codecs.up).name, codec_info(codecs.down).name);
}

// Rates of the slowest link, and what the two pairs make of them.
std::string compared(const ContentFacts& facts, const Price& best, const Price& other) {
  LinkCost slowest;
  for (const WorkerCost& worker : facts.workers)
    if (worker.link.up_us_per_byte + worker.link.down_us_per_byte >=
        slowest.up_us_per_byte + slowest.down_us_per_byte)
      slowest = worker.link;
  return format_text(
      "at %.3g Mbit/s up and %.3g down an exchange of %s takes %.3g ms after %u steps; "
      "%s would take %.3g ms after %u",
      8 / slowest.up_us_per_byte, 8 / slowest.down_us_per_byte, names(best.codecs).c_str(),
      best.exchange_us / 1e3, best.tau, names(other.codecs).c_str(), other.exchange_us / 1e3,
      other.tau);
}

}  // namespace

ContentPolicy::ContentPolicy(const ContentOptions& options)
    : options_(options), now_(options.codecs), wanted_(options.codecs) {
  model_.sizes = options.sizes;
  // A link that is not measured may be thin.
  if (options_.up_auto) wanted_.up = CodecId::kS1r;
  if (options_.down_auto) wanted_.down = CodecId::kS1r;
  now_ = wanted_;
  wanted_reason_ = kUnmeasuredReason;
  reason_up_ = options_.up_auto ? kUnmeasuredReason : kFixedReason;
  reason_down_ = options_.down_auto ? kUnmeasuredReason : kFixedReason;
}

void ContentPolicy::observe_publication(CodecId codec, const CodingNorms& norms, const Gap& gap,
                                        uint64_t publication) {
  model_.down.observe(codec, norms);
  const double kept_back = norms.coded > 0 ? norms.residual / norms.coded : 0;
  watch_.observe(gap, kept_back * kept_back, publication);
}

std::vector<CodecId> ContentPolicy::candidates(bool up) const {
  if (!(up ? options_.up_auto : options_.down_auto))
    return {up ? options_.codecs.up : options_.codecs.down};
  const double distrusted = up ? bits_distrusted_up_ : bits_distrusted_down_;
  const LossEstimate& losses = up ? model_.up : model_.down;
  std::vector<CodecId> result;
  for (const CodecInfo& info : codecs()) {
    const bool trusted = info.bits_per_element > distrusted || !info.lossy;
    const bool early = warming_up_ && losses.lost_share(info) > kWarmupLostShareMax;
    if (may_be_chosen(info) && trusted && !early) result.push_back(info.id);
  }
  return result;
}

void ContentPolicy::want(CodecPair codecs, const std::string& reason) {
  wanted_ = codecs;
  wanted_reason_ = reason;
  better_rounds_ = 0;
}

// A codec that falls behind, and all of fewer bits, are left alone for a while.
void ContentPolicy::distrust_losing() {
  if (distrust_rounds_left_ > 0 && --distrust_rounds_left_ == 0)
    bits_distrusted_up_ = bits_distrusted_down_ = 0;
  const std::string losing_up = model_.up.losing(now_.up);
  const std::string losing_down = model_.down.losing(now_.down);
  if (options_.up_auto && !losing_up.empty()) {
    bits_distrusted_up_ = codec_info(now_.up).bits_per_element;
    distrusted_reason_ = losing_up;
  }
  if (options_.down_auto && !losing_down.empty()) {
    bits_distrusted_down_ = codec_info(now_.down).bits_per_element;
    distrusted_reason_ = losing_down;
  }
  if (!distrusted_reason_.empty()) distrust_rounds_left_ = kDistrustRounds;
}

Price ContentPolicy::q8_price(const ContentFacts& facts) const {
  return model_.price(facts, {options_.up_auto ? CodecId::kQ8 : options_.codecs.up,
                              options_.down_auto ? CodecId::kQ8 : options_.codecs.down});
}

void ContentPolicy::consider(const ContentFacts& facts) {
  if (progress_began_ < 0) progress_began_ = facts.progress;
  warming_up_ = warming_up_ && facts.publication <= kWarmupPublications &&
                facts.progress - progress_began_ < kWarmupProgress;
  const Price best = choose(model_, facts, candidates(true), candidates(false));
  if (const std::string lost = std::exchange(distrusted_reason_, {}); !lost.empty())
    return want(best.codecs, lost + ": more bits");
  const Price present = model_.price(facts, wanted_);
  if (wanted_reason_ == kUnmeasuredReason)
    wanted_reason_ = compared(facts, present, best.codecs == wanted_ ? q8_price(facts) : best);
  const bool clearly = best.us_for_progress < kClearlyCheaper * present.us_for_progress;
  better_rounds_ = clearly ? better_rounds_ + 1 : 0;
  if (better_rounds_ >= kBetterRounds && rounds_since_change_ >= kRoundsBetweenChanges)
    want(best.codecs, compared(facts, best, present));
}

CodecPair ContentPolicy::decide(const ContentFacts& facts, bool tau_moves) {
  ++rounds_since_change_;
  if (tau_moves) {
    model_.up.begin_trend();
    return now_;
  }
  if ((options_.up_auto || options_.down_auto) && !facts.workers.empty()) {
    model_.rest_us = 0;
    if (facts.exchange_us > 0)
      model_.rest_us = std::max(0.0, facts.exchange_us - model_.price(facts, now_).exchange_us);
    distrust_losing();
    consider(facts);
  }
  CodecPair next = wanted_;
  reason_up_ = options_.up_auto ? wanted_reason_ : kFixedReason;
  reason_down_ = options_.down_auto ? wanted_reason_ : kFixedReason;
  if (!options_.up_auto && facts.publication <= options_.warmup_publications &&
      coarser_than_q8(next.up)) {
    next.up = CodecId::kQ8;
    reason_up_ = kWarmupReason;
  }
  if (watch_.closing() && coarser_than_q8(next.down)) {
    next.down = CodecId::kQ8;
    reason_down_ = "the published model lags too far behind";
  }
  if (next != now_) {
    rounds_since_change_ = 0;
    model_.up.begin_trend();
  }
  now_ = next;
  return now_;
}

void ContentPolicy::save(ByteWriter* out) const {
  out->put(static_cast<uint8_t>(wanted_.up));
  out->put(static_cast<uint8_t>(wanted_.down));
  out->put(static_cast<uint8_t>(warming_up_));
  out->put(static_cast<uint8_t>(watch_.closing()));
}

Status ContentPolicy::restore(ByteReader* in) {
  PACELINE_ASSIGN(const uint8_t up, in->get<uint8_t>());
  PACELINE_ASSIGN(const uint8_t down, in->get<uint8_t>());
  PACELINE_ASSIGN(const uint8_t warming_up, in->get<uint8_t>());
  PACELINE_ASSIGN(const uint8_t closing, in->get<uint8_t>());
  CodecPair codecs;
  PACELINE_ASSIGN(codecs.up, codec_by_wire_id(up));
  PACELINE_ASSIGN(codecs.down, codec_by_wire_id(down));
  if (warming_up > 1 || closing > 1) return fail(Code::kCorrupt, "how codecs are chosen");
  // What the run's file fixes is not taken from a saved state.
  if (options_.up_auto) wanted_.up = codecs.up;
  if (options_.down_auto) wanted_.down = codecs.down;
  warming_up_ = warming_up == 1;
  watch_.set_closing(closing == 1);
  now_ = wanted_;
  wanted_reason_ = "as before the restart";
  if (options_.up_auto) reason_up_ = wanted_reason_;
  if (options_.down_auto) reason_down_ = wanted_reason_;
  return {};
}

}  // namespace paceline
