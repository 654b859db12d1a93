// TK against a plain sort of every group, in double.
#include "runtime/quant/sparse_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "tests/runtime/quant/reference.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

struct Group {
  uint16_t scale = 0;
  std::vector<uint8_t> entries;
  std::vector<float> residual;
  bool operator==(const Group&) const = default;
};

// The next bf16 number at or above a positive number that is not close to the ends of the range.
float bf16_above(double value) {
  const int exponent = std::ilogb(value) - 7;
  return static_cast<float>(std::ldexp(std::ceil(std::ldexp(value, -exponent)), exponent));
}

Group reference_group(const std::vector<float>& c, uint32_t percent) {
  Group group{0, {}, c};
  double largest = 0;
  for (float value : c) largest = std::max(largest, std::fabs(double{value}));
  if (largest < 0x1p-80) return group;
  const float through = static_cast<float>(largest * double{1.0f / 127.0f});
  const float scale = bf16_above(through);
  uint32_t bits = 0;
  std::memcpy(&bits, &scale, sizeof bits);
  group.scale = static_cast<uint16_t>(bits >> 16);

  std::vector<size_t> order(c.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::fabs(c[a]) > std::fabs(c[b]); });
  order.resize((c.size() * percent + 99) / 100);
  std::sort(order.begin(), order.end());
  size_t after = 0;
  for (const size_t i : order) {
    const float product = c[i] * (1.0f / scale);
    const double code = std::nearbyint(double{product});
    if (code == 0) continue;
    for (size_t gap = i - after;; gap -= 255) {
      group.entries.push_back(static_cast<uint8_t>(std::min<size_t>(gap, 255)));
      if (gap < 255) break;
    }
    group.entries.push_back(static_cast<uint8_t>(static_cast<int8_t>(code)));
    group.residual[i] = reference_flush(static_cast<float>(c[i] - code * scale));
    after = i + 1;
  }
  return group;
}

// Without a residual if there is none to pass.
Group encode(const BlockCoder& coder, const std::vector<float>& update,
             const std::optional<std::vector<float>>& residual) {
  const auto blocks = static_cast<uint32_t>(update.size() / kBlockElements);
  Group group{0, std::vector<uint8_t>(coder.entry_bytes_max), {}};
  if (residual) group.residual = *residual;
  unsigned char scale[2] = {0xEE, 0xEE};
  unsigned char ranges[4] = {};
  coder.encode({0, blocks, blocks * kBlockElements, {}}, update.data(),
               residual ? group.residual.data() : nullptr, {scale, group.entries.data(), ranges});
  group.scale = static_cast<uint16_t>(scale[0] | scale[1] << 8);
  group.entries.resize(entry_range(ranges, 0).end);
  return group;
}

// Groups of many tempers: equal magnitudes, almost nothing but zeros, one exponent, all exponents.
std::vector<float> sample_group(Random& random, size_t elements) {
  std::vector<float> values(elements);
  const int exponent = static_cast<int>(random.below(60)) - 30;
  const uint64_t temper = random.below(10);
  for (size_t i = 0; i < elements; i += kBlockElements)
    fill_block(random, exponent - static_cast<int>(random.below(temper + 1)), values.data() + i);
  const float same = power_of_two(exponent);
  for (float& value : values) {
    if (temper == 0) value = random.below(2) == 0 ? same : -same;
    if (temper == 1 && random.below(300) != 0) value = 0;
    if (temper == 2) value = random.below(4) == 0 ? same * 0.5f : value * 0.5f;
    if (temper == 3) value = random.below(20) == 0 ? same : 0x1p-89f * random.symmetric();
    if (temper == 4) value *= power_of_two(-static_cast<int>(random.below(40)));
  }
  if (temper == 5)
    for (float& value : values) value *= power_of_two(-90 - exponent) * 1024;  // around 2^-80
  return values;
}

TEST_CASE("tk: groups of 1 to 16 blocks are what a sort by magnitude and place gives") {
  on_every_kernel_set([](const KernelSet& set) {
    Random random(seed(), 1);
    for (int repeat = 0; repeat < 300; ++repeat) {
      const size_t elements =
          kBlockElements * (repeat % 2 == 0 ? 16 : 1 + static_cast<size_t>(random.below(16)));
      const std::vector<float> update = sample_group(random, elements);
      const std::vector<float> residual =
          repeat % 3 == 0 ? std::vector<float>(elements) : sample_group(random, elements);
      std::vector<float> c(elements);
      for (size_t i = 0; i < elements; ++i) c[i] = reference_flush(update[i] + residual[i]);
      for (const BlockCoder* coder : {&block_coder_tk1, &block_coder_tk5}) {
        const Group got = encode(*coder, update, residual);
        const Group want = reference_group(c, coder == &block_coder_tk1 ? 1 : 5);
        if (got == want) continue;
        CAPTURE(std::string(set.name));
        CAPTURE(std::string(coder->info.name));
        CAPTURE(repeat);
        CHECK(got.scale == want.scale);
        CHECK(got.entries == want.entries);
        CHECK(got.residual == want.residual);
      }
    }
  });
}

TEST_CASE("tk: without a residual a group is that of an update with residual zero") {
  on_every_kernel_set([](const KernelSet& set) {
    CAPTURE(std::string(set.name));
    Random random(seed(), 3);
    for (int repeat = 0; repeat < 100; ++repeat) {
      const std::vector<float> update = sample_group(random, kBlockElements * 16);
      for (const BlockCoder* coder : {&block_coder_tk1, &block_coder_tk5}) {
        const Group want = encode(*coder, update, std::vector<float>(update.size()));
        const Group got = encode(*coder, update, std::nullopt);
        CHECK(got.scale == want.scale);
        CHECK(got.entries == want.entries);
      }
    }
  });
}

TEST_CASE("tk: the passes of every kernel set agree for 0 to 16 blocks at every misalignment") {
  const KernelSet& scalar = *kernel_sets().back();
  on_every_kernel_set([&](const KernelSet& set) {
    CAPTURE(std::string(set.name));
    Random random(seed(), 2);
    for (size_t blocks = 0; blocks <= 16; ++blocks)
      for (size_t shift = 0; shift < 16; ++shift) {
        const size_t count = blocks * kBlockElements;
        const size_t strip = shift % 2 == 0 ? 8 : 32;
        // One guard behind each area; positions may be overrun by sixteen.
        std::vector<float> update(shift, 0.0f);
        const std::vector<float> sample = sample_group(random, count);
        update.insert(update.end(), sample.begin(), sample.end());
        std::vector<float> want = sample_group(random, count);
        want.push_back(77.0f);
        std::vector<float> got(shift, 0.0f);
        got.insert(got.end(), want.begin(), want.end());
        std::vector<uint32_t> want_maxima(count / strip + 1, 77);
        std::vector<uint32_t> got_maxima = want_maxima;
        const uint32_t largest = scalar.gather_maxima(update.data() + shift, want.data(), blocks,
                                                      strip, want_maxima.data());
        REQUIRE(set.gather_maxima(update.data() + shift, got.data() + shift, blocks, strip,
                                  got_maxima.data()) == largest);
        REQUIRE(got_maxima == want_maxima);
        REQUIRE(same_bytes(
            std::vector<float>(got.begin() + static_cast<ptrdiff_t>(shift), got.end()), want));
        // Without a residual.
        std::vector<uint32_t> update_maxima(want_maxima.size(), 77);
        REQUIRE(set.gather_maxima(update.data() + shift, nullptr, blocks, strip,
                                  got_maxima.data()) == scalar.gather_maxima(update.data() + shift,
                                                                             nullptr, blocks, strip,
                                                                             update_maxima.data()));
        REQUIRE(got_maxima == update_maxima);
        const uint32_t least = std::max(1u, want_maxima[count / strip / 2]);
        std::vector<uint16_t> want_positions(count + 17, 77);
        std::vector<uint16_t> got_positions = want_positions;
        want_positions.resize(scalar.find_large(want.data(), blocks, least, want_positions.data()));
        const size_t found =
            set.find_large(got.data() + shift, blocks, least, got_positions.data());
        REQUIRE(got_positions.back() == 77);
        got_positions.resize(found);
        REQUIRE(got_positions == want_positions);
      }
  });
}

TEST_CASE("tk: of equal magnitudes the lower places are sent") {
  std::vector<float> update(4096, 1.0f);
  for (size_t i = 0; i < update.size(); i += 3) update[i] = -1.0f;
  const Group got = encode(block_coder_tk1, update, std::vector<float>(4096));
  REQUIRE(got.entries.size() == 82);
  for (size_t i = 0; i < 82; i += 2) CHECK(got.entries[i] == 0);
  CHECK(got.residual[40] != update[40]);
  CHECK(got.residual[41] == update[41]);
}

TEST_CASE("tk: a gap of 255 is a skip and a 0, and the last element can be reached") {
  std::vector<float> update(4096);
  update[254] = 1.0f;
  update[510] = 1.0f;
  update[4095] = -1.0f;
  const Group got = encode(block_coder_tk1, update, std::vector<float>(4096));
  std::vector<uint8_t> want = {254, 126, 255, 0, 126};
  want.insert(want.end(), 14, 255);
  want.insert(want.end(), {4095 - 511 - 14 * 255, 0x82});
  CHECK(got.scale == 0x3C02);
  CHECK(got.entries == want);
}

TEST_CASE("tk: the bound on a group's entries holds where every gap is as long as it can be") {
  for (const BlockCoder* coder : {&block_coder_tk1, &block_coder_tk5}) {
    const size_t entries_max = sparse_entries_max(16, coder == &block_coder_tk1 ? 1 : 5);
    std::vector<float> update(4096);
    // All skips that there is room for, and then the entries next to each other at the end.
    for (size_t i = 0; i < entries_max; ++i) update[4095 - i] = 1.0f;
    const Group got = encode(*coder, update, std::vector<float>(4096));
    CHECK(got.entries.size() == 2 * entries_max + (4096 - entries_max) / 255);
    CHECK(got.entries.size() <= coder->entry_bytes_max);
  }
}

}  // namespace
}  // namespace paceline::test
