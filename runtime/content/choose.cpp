#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/check.h"
#include "runtime/content/content.h"

namespace paceline {

namespace {

// Time of computing for each time of exchanging on a thin link, and how far tau goes for it.
constexpr double kComputingPerExchange = 1;
constexpr uint32_t kLinkTauMax = 64;
// What a codec keeps back is sent later. Price of one exchange of delay (docs/content.md).
constexpr double kDelayPrice = 0.025;
// Pairs whose prices differ by less are equally good: the one of the fewest bytes is taken.
constexpr double kEqualPrices = 1.08;

// What a round of tau steps brings, in steps: local steps drift apart. tau^(5/8), by square roots,
// which are the same everywhere.
double progress_of(uint32_t tau) {
  const double half = std::sqrt(static_cast<double>(tau));
  return half * std::sqrt(std::sqrt(half));
}

// Mean delay, in exchanges, of what is kept back and sent with the next ones.
double delay(const LossEstimate& losses, CodecId codec) {
  const double lost = losses.lost_share(codec_info(codec));
  return lost / (1 - lost);
}

}  // namespace

uint32_t link_tau(uint32_t present, double exchange_us, double step_us) {
  if (!(step_us > 0)) return present;
  const double wanted = exchange_us / step_us * kComputingPerExchange;
  while (present < kLinkTauMax && wanted > 1.25 * present) present *= 2;
  while (present > 1 && wanted < 0.4 * present) present /= 2;
  return present;
}

PayloadSizes PayloadSizes::of(const ParameterLayout& layout) {
  PayloadSizes sizes;
  for (const BlockRun& run : layout.runs())
    (run.wide ? sizes.wide_elements : sizes.narrow_elements) +=
        static_cast<double>(run.block_count) * kBlockElements;
  sizes.chunk_count = layout.chunk_count();
  return sizes;
}

double PayloadSizes::bytes(const CodecInfo& codec) const {
  constexpr double kHeaderBytes = 64;
  const double narrow_bits =
      std::max(codec.bits_per_element, codec_info(CodecId::kQ8).bits_per_element);
  return chunk_count * kHeaderBytes +
         (wide_elements * codec.bits_per_element + narrow_elements * narrow_bits) / 8;
}

bool may_be_chosen(const CodecInfo& codec) { return codec.refused_down == nullptr; }

Price ContentModel::price(const ContentFacts& facts, CodecPair codecs) const {
  PACELINE_CHECK(!facts.workers.empty());
  const double up_bytes = sizes.bytes(codec_info(codecs.up));
  const double down_bytes = sizes.bytes(codec_info(codecs.down));
  // A push for each chunk, the commit, a fetch for each chunk.
  const double trips = 2.0 * sizes.chunk_count + 1;
  const auto carried_us = [&](const LinkCost& link) {
    return trips * link.trip_us + up_bytes * link.up_us_per_byte +
           down_bytes * link.down_us_per_byte;
  };
  double slowest_step_us = 0, slowest_carried_us = 0;
  for (const WorkerCost& worker : facts.workers) {
    slowest_step_us = std::max(slowest_step_us, worker.step_us);
    slowest_carried_us = std::max(slowest_carried_us, carried_us(worker.link));
  }
  Price price;
  price.codecs = codecs;
  price.bytes = up_bytes + down_bytes;
  price.exchange_us = slowest_carried_us + rest_us;
  price.tau = facts.tau;
  if (facts.follows_link && facts.rounds)
    price.tau = std::max(facts.tau, link_tau(1, price.exchange_us, slowest_step_us));
  double round_us = price.tau * slowest_step_us + price.exchange_us;
  if (!facts.rounds) {
    // Each at its own speed: the fleet makes the sum of their rounds.
    double rounds_per_us = 0;
    for (const WorkerCost& worker : facts.workers)
      rounds_per_us += 1 / std::max(price.tau * worker.step_us + carried_us(worker.link), 1.0);
    round_us = static_cast<double>(facts.workers.size()) / rounds_per_us;
  }
  const double delayed =
      (1 + kDelayPrice * delay(up, codecs.up)) * (1 + kDelayPrice * delay(down, codecs.down));
  price.us_for_progress = round_us * delayed / progress_of(price.tau);
  return price;
}

Price choose(const ContentModel& model, const ContentFacts& facts, std::span<const CodecId> ups,
             std::span<const CodecId> downs) {
  PACELINE_CHECK(!ups.empty() && !downs.empty());
  std::vector<Price> prices;
  double least = std::numeric_limits<double>::infinity();
  for (const CodecId up : ups) {
    for (const CodecId down : downs) {
      prices.push_back(model.price(facts, {up, down}));
      least = std::min(least, prices.back().us_for_progress);
    }
  }
  std::erase_if(prices,
                [&](const Price& price) { return price.us_for_progress > kEqualPrices * least; });
  return *std::ranges::min_element(prices, {}, &Price::bytes);
}

}  // namespace paceline
