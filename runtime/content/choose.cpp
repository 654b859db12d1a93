#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/check.h"
#include "runtime/base/local_steps.h"
#include "runtime/content/content.h"

namespace paceline {

namespace {

// Time of computing for each time of exchanging on a thin link, and how far tau goes for it.
constexpr double kComputingPerExchange = 1;
constexpr uint32_t kLinkTauMax = 64;
// What a codec keeps back is sent later, when it is stale. Going up that costs more: momentum and
// the other boards have moved on (docs/content.md).
constexpr double kDelayPriceUp = 0.08;
constexpr double kDelayPriceDown = 0.06;
// Pairs whose prices differ by less are equally good: the one of the fewest bytes is taken.
constexpr double kEqualPrices = 1.03;

// Mean delay, in exchanges, of what is kept back and sent with the next ones, to the power of 3/4:
// a long delay costs less for each exchange of it.
double delay_cost(const LossEstimate& losses, CodecId codec) {
  const double lost = losses.lost_share(codec_info(codec));
  const double half = std::sqrt(lost / (1 - lost));
  return half * std::sqrt(half);
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

double ContentModel::carried_us(const LinkCost& link, CodecPair codecs) const {
  // A push for each chunk, the commit, a fetch for each chunk.
  const double trips = 2.0 * sizes.chunk_count + 1;
  return trips * link.trip_us + sizes.bytes(codec_info(codecs.up)) * link.up_us_per_byte +
         sizes.bytes(codec_info(codecs.down)) * link.down_us_per_byte;
}

Price ContentModel::price(const ContentFacts& facts, CodecPair codecs) const {
  PACELINE_CHECK(!facts.workers.empty());
  double slowest_step_us = 0, slowest_carried_us = 0;
  for (const WorkerCost& worker : facts.workers) {
    slowest_step_us = std::max(slowest_step_us, worker.step_us);
    slowest_carried_us = std::max(slowest_carried_us, carried_us(worker.link, codecs));
  }
  Price price;
  price.codecs = codecs;
  price.bytes = sizes.bytes(codec_info(codecs.up)) + sizes.bytes(codec_info(codecs.down));
  price.exchange_us = slowest_carried_us + rest_us;
  price.tau = facts.tau;
  const auto raised = [&](double exchange_us, double step_us) {
    return facts.follows_link ? std::max(facts.tau, link_tau(1, exchange_us, step_us)) : facts.tau;
  };
  double progress_per_us = 0;
  if (facts.rounds) {
    price.tau = raised(price.exchange_us, slowest_step_us);
    progress_per_us =
        progress_of_steps(price.tau) / (price.tau * slowest_step_us + price.exchange_us);
  } else {
    // Each at its own speed, with a tau of its own: the fleet makes the mean of their progress.
    for (const WorkerCost& worker : facts.workers) {
      const double exchange_us = carried_us(worker.link, codecs);
      const uint32_t tau = raised(exchange_us, worker.step_us);
      price.tau = std::max(price.tau, tau);
      progress_per_us += progress_of_steps(tau) /
                         std::max(tau * worker.step_us + exchange_us, 1.0) /
                         static_cast<double>(facts.workers.size());
    }
  }
  const double delayed = (1 + kDelayPriceUp * delay_cost(up, codecs.up)) *
                         (1 + kDelayPriceDown * delay_cost(down, codecs.down));
  price.us_for_progress = delayed / progress_per_us;
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
