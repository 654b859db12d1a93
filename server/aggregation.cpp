#include "server/aggregation.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>

#include "runtime/base/check.h"

namespace paceline {

namespace {

constexpr size_t kSortedTogether = 256;  // coordinates; their rows stay in the cache
constexpr int kClipPasses = 3;           // each from the mean that the one before has found

struct RuleName {
  const char* name;
  AggregationRule rule;
  bool takes_faulty;
};
constexpr RuleName kRules[] = {{"mean", AggregationRule::kMean, false},
                               {"median", AggregationRule::kMedian, false},
                               {"trimmed", AggregationRule::kTrimmed, true},
                               {"krum", AggregationRule::kKrum, true},
                               {"clip", AggregationRule::kClip, false}};

// Afterwards a[i] <= b[i].
void order(float* a, float* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float low = b[i] < a[i] ? b[i] : a[i];
    const float high = b[i] < a[i] ? a[i] : b[i];
    a[i] = low;
    b[i] = high;
  }
}

// Sorts each coordinate over the rows: Batcher's merge exchange (Knuth, volume 3, 5.2.2 M), whose
// steps depend on the number of rows alone and so run on many coordinates at once.
void sort_rows(std::span<float* const> rows, size_t count) {
  const size_t n = rows.size();
  if (n < 2) return;
  const size_t top = std::bit_ceil(n) / 2;
  for (size_t p = top; p > 0; p /= 2) {
    size_t q = top, r = 0, distance = p;
    for (;;) {
      for (size_t i = 0; i + distance < n; ++i)
        if ((i & p) == r) order(rows[i], rows[i + distance], count);
      if (q == p) break;
      distance = q - p;
      q /= 2;
      r = p;
    }
  }
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kLanes = 8;  // sums that do not wait for each other; their order is fixed
  double sums[kLanes] = {};
  PACELINE_CHECK(a.size() == b.size() && a.size() % kLanes == 0);
  for (size_t i = 0; i < a.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double difference = static_cast<double>(a[i + lane]) - static_cast<double>(b[i + lane]);
      sums[lane] += difference * difference;
    }
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

}  // namespace

Result<AggregationChoice> parse_aggregation(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const RuleName& known : kRules) {
    if (name != known.name || (colon != std::string_view::npos && !known.takes_faulty)) continue;
    AggregationChoice choice{.rule = known.rule};
    if (colon == std::string_view::npos) return choice;
    const std::string_view number = text.substr(colon + 1);
    const auto [rest, error] =
        std::from_chars(number.data(), number.data() + number.size(), choice.faulty);
    if (error == std::errc() && rest == number.data() + number.size() && choice.faulty >= 1 &&
        choice.faulty <= kWorkersMax)
      return choice;
  }
  return fail(Code::kInvalidArgument,
              "aggregate '%s': take mean, median, trimmed:1, krum:1 (the number: how many workers "
              "may lie) or clip",
              std::string(text).c_str());
}

struct Aggregator::Round {
  const ParameterLayout& layout;
  std::span<const WeightedPayload> payloads;
  size_t workers;
  uint64_t seed;

  std::span<const WeightedPayload> chunk(uint32_t index) const {
    return payloads.subspan(index * workers, workers);
  }
  // A range of a flat vector.
  std::span<float> part(std::span<float> flat, uint32_t index) const {
    const ChunkRange range = layout.chunk(index);
    return flat.subspan(size_t{range.first_block} * kBlockElements,
                        size_t{range.block_count} * kBlockElements);
  }
};

float Aggregator::aggregate(const ParameterLayout& layout,
                            std::span<const WeightedPayload> payloads, size_t workers,
                            uint64_t seed, std::span<float> sum) {
  PACELINE_CHECK(workers > 0 && payloads.size() == workers * layout.chunk_count());
  const Round round{layout, payloads, workers, seed};
  whole_.resize(layout.element_count());
  rows_.resize(workers);
  left_out_.clear();
  switch (choice_.rule) {
    case AggregationRule::kMean:
    case AggregationRule::kKrum:
      return nearest_mean(round, sum);
    case AggregationRule::kMedian:
    case AggregationRule::kTrimmed:
      sort_coordinates(round, sum);
      return 1;
    case AggregationRule::kClip:
      clipped_mean(round, sum);
      return 1;
  }
  PACELINE_CHECK(false);
}

void Aggregator::decode(const Round& round, uint32_t chunk, std::span<const float> centre) {
  const std::span<float> part = round.part(whole_, chunk);
  const std::span<const WeightedPayload> payloads = round.chunk(chunk);
  for (size_t worker = 0; worker < round.workers; ++worker) {
    add_payload(round.layout, payloads[worker].payload, round.seed, whole_);
    std::vector<float>& row = rows_[worker];
    row.assign(part.begin(), part.end());
    std::ranges::fill(part, 0.0f);
    if (centre.empty()) continue;
    for (size_t i = 0; i < row.size(); ++i) row[i] -= centre[i];
  }
}

void Aggregator::sort_coordinates(const Round& round, std::span<float> sum) {
  const size_t most = (round.workers - 1) / 2;
  const size_t cut =
      choice_.rule == AggregationRule::kMedian ? most : std::min<size_t>(choice_.faulty, most);
  const auto kept = static_cast<float>(round.workers - 2 * cut);
  std::vector<float*> at(round.workers);
  for (uint32_t chunk = 0; chunk < round.layout.chunk_count(); ++chunk) {
    decode(round, chunk, {});
    const std::span<float> out = round.part(sum, chunk);
    for (size_t begin = 0; begin < out.size(); begin += kSortedTogether) {
      const size_t count = std::min(kSortedTogether, out.size() - begin);
      for (size_t worker = 0; worker < round.workers; ++worker)
        at[worker] = rows_[worker].data() + begin;
      sort_rows(at, count);
      for (size_t i = 0; i < count; ++i) {
        float total = at[cut][i];
        for (size_t rank = cut + 1; rank < round.workers - cut; ++rank) total += at[rank][i];
        out[begin + i] = total / kept;
      }
    }
  }
}

float Aggregator::nearest_mean(const Round& round, std::span<float> sum) {
  const size_t n = round.workers;
  // What can be told apart takes three honest ones more than twice the liars.
  const size_t faulty = choice_.rule == AggregationRule::kMean || n < 3
                            ? 0
                            : std::min<size_t>(choice_.faulty, (n - 3) / 2);
  std::vector<size_t> ranks(n);
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  if (faulty > 0) {
    std::vector<std::vector<double>> squares(n, std::vector<double>(n));
    for (uint32_t chunk = 0; chunk < round.layout.chunk_count(); ++chunk) {
      decode(round, chunk, {});
      for (size_t i = 0; i < n; ++i)
        for (size_t j = i + 1; j < n; ++j) {
          squares[i][j] += squared_distance(rows_[i], rows_[j]);
          squares[j][i] = squares[i][j];
        }
    }
    std::vector<double> scores(n);
    for (size_t i = 0; i < n; ++i) {
      std::ranges::sort(squares[i]);  // the first is its own, 0
      const auto first = squares[i].begin() + 1;
      scores[i] = std::accumulate(first, first + static_cast<std::ptrdiff_t>(n - faulty - 2), 0.0);
    }
    std::ranges::stable_sort(ranks, [&](size_t a, size_t b) { return scores[a] < scores[b]; });
    left_out_.assign(ranks.end() - static_cast<std::ptrdiff_t>(faulty), ranks.end());
    ranks.resize(n - faulty);
    std::ranges::sort(ranks);
  }
  float divisor = 0;
  for (uint32_t chunk = 0; chunk < round.layout.chunk_count(); ++chunk) {
    chosen_.clear();
    for (const size_t rank : ranks) chosen_.push_back(round.chunk(chunk)[rank]);
    sum_payloads(round.layout, chunk, chosen_, round.seed, sum);
  }
  for (const WeightedPayload& one : chosen_) divisor += one.weight;
  return divisor;
}

void Aggregator::clipped_mean(const Round& round, std::span<float> sum) {
  std::ranges::fill(sum, 0.0f);
  std::vector<double> distances(round.workers);
  std::vector<float> factors(round.workers);
  double weights = 0;
  for (size_t worker = 0; worker < round.workers; ++worker)
    weights += static_cast<double>(round.payloads[worker].weight);
  for (int pass = 0; pass < kClipPasses && weights > 0; ++pass) {
    std::ranges::fill(distances, 0.0);
    for (uint32_t chunk = 0; chunk < round.layout.chunk_count(); ++chunk) {
      decode(round, chunk, round.part(sum, chunk));
      const std::vector<float> nothing(rows_[0].size());
      for (size_t worker = 0; worker < round.workers; ++worker)
        distances[worker] += squared_distance(rows_[worker], nothing);
    }
    for (double& distance : distances) distance = std::sqrt(distance);
    std::vector<double> sorted = distances;
    std::ranges::sort(sorted);
    const double radius = sorted[(sorted.size() - 1) / 2];
    for (size_t worker = 0; worker < round.workers; ++worker) {
      const double share = static_cast<double>(round.payloads[worker].weight) / weights;
      factors[worker] = static_cast<float>(
          distances[worker] > radius ? share * radius / distances[worker] : share);
    }
    for (uint32_t chunk = 0; chunk < round.layout.chunk_count(); ++chunk) {
      const std::span<float> out = round.part(sum, chunk);
      decode(round, chunk, out);
      for (size_t worker = 0; worker < round.workers; ++worker)
        for (size_t i = 0; i < out.size(); ++i) out[i] += factors[worker] * rows_[worker][i];
    }
  }
}

}  // namespace paceline
