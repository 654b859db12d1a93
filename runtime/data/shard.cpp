// The skewed split follows T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical
// data distribution for federated visual classification" (2019), in the form that gives every row
// to exactly one worker: for each class, the workers' shares are one draw from Dirichlet(alpha).
// Gamma variates: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables"
// (2000).
#include "runtime/data/shard.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/data/portable_math.h"

namespace paceline {

namespace {

constexpr double kAlphaMin = 1e-3;
constexpr double kAlphaMax = 1e6;
constexpr size_t kHoldOutRowsMin = 20;

// Polar method; the second value of a pair is thrown away to keep the cursor simple.
double normal(Random& random) {
  for (;;) {
    const double x = 2 * random.unit() - 1;
    const double y = 2 * random.unit() - 1;
    const double s = x * x + y * y;
    if (s >= 1 || s < 0x1p-60) continue;
    return x * portable::square_root(-2 * portable::log(s) / s);
  }
}

// Uniform in (0, 1]: the logarithm of 0 is never asked for.
double open_unit(Random& random) { return random.unit() + 0x1p-54; }

// Logarithm of a Gamma(shape, 1) variate, because for a small shape the variate itself underflows.
double log_gamma_variate(double shape, Random& random) {
  if (shape < 1)
    return log_gamma_variate(shape + 1, random) + portable::log(open_unit(random)) / shape;
  const double d = shape - 1.0 / 3;
  const double c = 1 / (3 * portable::square_root(d));
  for (;;) {
    const double x = normal(random);
    const double root = 1 + c * x;
    if (root <= 0x1p-60) continue;
    const double log_v = 3 * portable::log(root);
    const double v = root * root * root;
    if (portable::log(open_unit(random)) < 0.5 * x * x + d - d * v + d * log_v)
      return portable::log(d) + log_v;
  }
}

// Shares of `count` workers in one class; they sum to 1 within rounding.
std::vector<double> dirichlet(double alpha, uint32_t count, Random& random) {
  std::vector<double> shares(count);
  for (double& share : shares) share = log_gamma_variate(alpha, random);
  const double largest = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (double& share : shares) sum += share = portable::exp(share - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

// Where worker `index` begins in `row_count` rows that are cut by `shares`.
size_t cut(std::span<const double> shares, uint32_t index, size_t row_count) {
  if (index == shares.size()) return row_count;
  double before = 0;
  for (uint32_t i = 0; i < index; ++i) before += shares[i];
  const auto rows = static_cast<size_t>(before * static_cast<double>(row_count) + 0.5);
  return std::min(rows, row_count);
}

std::vector<uint32_t> iid_rows(size_t row_count, const ShardOptions& options) {
  std::vector<uint32_t> order(row_count);
  std::iota(order.begin(), order.end(), 0u);
  Random(options.seed, 0).shuffle(std::span(order));
  std::vector<uint32_t> rows;
  rows.reserve(row_count / options.count + 1);
  for (size_t i = options.index; i < row_count; i += options.count) rows.push_back(order[i]);
  return rows;
}

std::vector<uint32_t> skewed_rows(std::span<const int32_t> labels, uint32_t class_count,
                                  const ShardOptions& options) {
  std::vector<std::vector<uint32_t>> rows_of_class(class_count);
  for (size_t i = 0; i < labels.size(); ++i)
    rows_of_class[static_cast<size_t>(labels[i])].push_back(static_cast<uint32_t>(i));
  std::vector<uint32_t> rows;
  for (uint32_t c = 0; c < class_count; ++c) {
    std::vector<uint32_t>& candidates = rows_of_class[c];
    Random random(options.seed, uint64_t{c} + 1);
    random.shuffle(std::span(candidates));
    const auto shares = dirichlet(options.dirichlet_alpha, options.count, random);
    const size_t first = cut(shares, options.index, candidates.size());
    const size_t last = cut(shares, options.index + 1, candidates.size());
    rows.insert(rows.end(), candidates.begin() + static_cast<ptrdiff_t>(first),
                candidates.begin() + static_cast<ptrdiff_t>(last));
  }
  return rows;
}

template <class T>
bool parse_number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_setting(std::string_view setting, ShardOptions* options) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = setting.substr(0, equals);
  const std::string_view value = setting.substr(equals + 1);
  if (key == "seed") return parse_number(value, &options->seed);
  if (key == "rows") return parse_number(value, &options->row_count_max);
  double& alpha = options->dirichlet_alpha;
  return key == "dirichlet" && parse_number(value, &alpha) && alpha >= kAlphaMin &&
         alpha <= kAlphaMax;
}

bool parse(std::string_view text, ShardOptions* options) {
  const size_t slash = text.find('/');
  const size_t colon = std::min(text.find(':'), text.size());
  if (slash == std::string_view::npos || slash > colon) return false;
  if (!parse_number(text.substr(0, slash), &options->index)) return false;
  if (!parse_number(text.substr(slash + 1, colon - slash - 1), &options->count)) return false;
  if (colon == text.size()) return true;
  for (std::string_view settings = text.substr(colon + 1);;) {
    const size_t comma = settings.find(',');
    if (!parse_setting(settings.substr(0, comma), options)) return false;
    if (comma == std::string_view::npos) return true;
    settings.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<ShardOptions> parse_shard(std::string_view text) {
  ShardOptions options;
  if (!parse(text, &options) || options.count > kWorkersMax || options.index >= options.count)
    return fail(Code::kInvalidArgument,
                "shard '%.*s': write INDEX/COUNT, as 0/4 to 3/4, or 2/4:dirichlet=0.5,seed=7 "
                "(dirichlet %g to %g, at most %u shards)",
                static_cast<int>(std::min<size_t>(text.size(), 80)), text.data(), kAlphaMin,
                kAlphaMax, kWorkersMax);
  return options;
}

Result<std::vector<uint32_t>> shard_rows(std::span<const int32_t> labels, uint32_t class_count,
                                         const ShardOptions& options) {
  if (options.count == 0 || options.count > kWorkersMax || options.index >= options.count)
    return fail(Code::kInvalidArgument,
                "shard %u of %u: the index counts from 0, at most %u shards", options.index,
                options.count, kWorkersMax);
  const double alpha = options.dirichlet_alpha;
  if (alpha != 0 && !(alpha >= kAlphaMin && alpha <= kAlphaMax))
    return fail(Code::kInvalidArgument, "dirichlet alpha %g, must be %g to %g", alpha, kAlphaMin,
                kAlphaMax);
  if (labels.size() > UINT32_MAX)
    return fail(Code::kResourceExhausted, "%zu rows, at most 2^32 - 1", labels.size());
  for (const int32_t label : labels)
    if (label < 0 || static_cast<uint32_t>(label) >= class_count)
      return fail(Code::kInvalidArgument, "label %d with %u classes", label, class_count);
  const auto used =
      labels.first(static_cast<size_t>(std::min<uint64_t>(labels.size(), options.row_count_max)));
  std::vector<uint32_t> rows =
      alpha == 0 ? iid_rows(used.size(), options) : skewed_rows(used, class_count, options);
  std::sort(rows.begin(), rows.end());
  return rows;
}

HoldOut split_hold_out(size_t row_count) {
  PACELINE_CHECK(row_count <= UINT32_MAX);
  HoldOut split;
  size_t held_out = 0;
  if (row_count >= 2 * kHoldOutRowsMin) held_out = std::max(row_count / 10, kHoldOutRowsMin);
  split.training.resize(row_count - held_out);
  split.held_out.resize(held_out);
  std::iota(split.training.begin(), split.training.end(), 0u);
  std::iota(split.held_out.begin(), split.held_out.end(),
            static_cast<uint32_t>(row_count - held_out));
  return split;
}

HoldOut split_hold_out(const Dataset& samples) {
  HoldOut split = split_hold_out(samples.row_count());
  if (split.held_out.empty()) return split;
  const uint64_t line = samples.first_row(split.held_out.front());
  while (!split.training.empty() &&
         uint64_t{samples.first_row(split.training.back())} + samples.windows().span() > line)
    split.training.pop_back();
  return split;
}

Result<std::vector<uint32_t>> shard_windows(const Dataset& windows, const ShardOptions& options) {
  if (options.dirichlet_alpha != 0)
    return fail(Code::kInvalidArgument,
                "windows are dealt out in blocks of time; leave dirichlet= out of the shard");
  const uint64_t count = std::min<uint64_t>(windows.row_count(), options.row_count_max);
  const auto begin = static_cast<uint32_t>(count * options.index / options.count);
  const auto end = static_cast<uint32_t>(count * (options.index + 1) / options.count);
  std::vector<uint32_t> rows;
  for (uint32_t i = begin; i < end; ++i)
    if (begin == 0 ||
        windows.first_row(i) >= uint64_t{windows.first_row(begin - 1)} + windows.windows().span())
      rows.push_back(i);
  return rows;
}

}  // namespace paceline
