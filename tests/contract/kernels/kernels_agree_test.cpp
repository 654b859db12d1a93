// Every kernel set gives the bytes of the scalar one: for any number of blocks, at any address, for
// any number in any lane, with flush-to-zero on or off, and without a write outside its blocks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/rotation.h"
#include "tests/golden/flush_to_zero.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr size_t kBlocksMax = 4;
constexpr size_t kGuard = 16;
constexpr float kGuardValue = 77.0f;
constexpr unsigned char kGuardByte = 0x5A;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSpecials[] = {std::numeric_limits<float>::quiet_NaN(),
                               kInfinity,
                               -kInfinity,
                               -0.0f,
                               0x1p-149f,
                               -0x1.fffffcp-127f,
                               0x1p-126f,
                               0x1.fffffep-101f,
                               -0x1p-100f,
                               0x1.fffffep-91f,
                               -0x1p-90f,
                               0x1p-80f,
                               0x1.fffffep-81f,
                               0x1.fffffep-61f,
                               -0x1p-60f,
                               0x1p110f,
                               -0x1p118f,
                               0x1.fffffep118f,
                               -0x1p119f,
                               0x1p127f};

const KernelSet& scalar() { return *kernel_sets().back(); }

// `count` values between two guards, `shift` values away from the allocation's alignment.
template <class T>
class Guarded {
 public:
  Guarded(size_t count, size_t shift, T guard)
      : guard_(guard),
        begin_(kGuard + shift),
        count_(count),
        all_(begin_ + count + kGuard, guard) {}
  Guarded(const std::vector<T>& values, size_t shift, T guard)
      : Guarded(values.size(), shift, guard) {
    std::copy(values.begin(), values.end(), data());
  }
  T* data() { return all_.data() + begin_; }
  std::vector<T> values() const {
    const auto first = all_.begin() + static_cast<ptrdiff_t>(begin_);
    return {first, first + static_cast<ptrdiff_t>(count_)};
  }
  bool guards_hold() const {
    for (size_t i = 0; i < all_.size(); ++i)
      if ((i < begin_ || i >= begin_ + count_) && all_[i] != guard_) return false;
    return true;
  }

 private:
  T guard_;
  size_t begin_;
  size_t count_;
  std::vector<T> all_;
};

struct Output {
  std::vector<unsigned char> scales;
  std::vector<unsigned char> codes;
  std::vector<float> values;
  bool operator==(const Output& other) const {
    return scales == other.scales && codes == other.codes && same_bytes(values, other.values);
  }
};

// Input of `blocks` blocks with legal numbers of every size.
std::vector<float> sample_blocks(uint64_t stream, size_t blocks) {
  Random random(seed(), stream);
  std::vector<float> values(blocks * kKernelBlock);
  constexpr int kExponents[] = {-2, 0, 40, 100, -59, -61, -79, -80, -81, -89, -91, -100, -120};
  for (size_t b = 0; b < blocks; ++b)
    fill_block(random, kExponents[random.below(std::size(kExponents))],
               values.data() + b * kKernelBlock);
  return values;
}

std::vector<uint64_t> sample_signs(size_t blocks) {
  std::vector<uint64_t> signs(blocks * kSignWords);
  for (size_t b = 0; b < blocks; ++b) rotation_signs({seed(), 3}, b, &signs[b * kSignWords]);
  return signs;
}

// The kernels of one block codec; those of the other kind are null.
struct Codec {
  const char* name;
  size_t code_bytes;
  decltype(KernelSet::encode_q8) KernelSet::*encode;
  decltype(KernelSet::encode_s1r) KernelSet::*encode_rotated;
  decltype(KernelSet::add_q8) KernelSet::*add;
  decltype(KernelSet::add_s1r) KernelSet::*add_rotated;
  decltype(KernelSet::sum_q8) KernelSet::*sum;  // for a rotated codec, of rotated blocks
};
constexpr Codec kCodecs[] = {
    {"q8", 256, &KernelSet::encode_q8, nullptr, &KernelSet::add_q8, nullptr, &KernelSet::sum_q8},
    {"q4", 128, &KernelSet::encode_q4, nullptr, &KernelSet::add_q4, nullptr, &KernelSet::sum_q4},
    {"s1", 32, &KernelSet::encode_s1, nullptr, &KernelSet::add_s1, nullptr, &KernelSet::sum_s1},
    {"q4r", 128, nullptr, &KernelSet::encode_q4r, nullptr, &KernelSet::add_q4r, &KernelSet::sum_q4},
    {"s1r", 32, nullptr, &KernelSet::encode_s1r, nullptr, &KernelSet::add_s1r, &KernelSet::sum_s1},
};

// Without a residual if there is none to pass.
Output encode(const KernelSet& set, const Codec& codec, const std::vector<float>& update_values,
              const std::optional<std::vector<float>>& residual_values, size_t shift) {
  const size_t blocks = update_values.size() / kKernelBlock;
  Guarded<float> update(update_values, shift, kGuardValue);
  Guarded<float> residual(residual_values.value_or(std::vector<float>()), (shift * 3) % 16,
                          kGuardValue);
  Guarded<unsigned char> scales(blocks * 2, shift, kGuardByte);
  Guarded<unsigned char> codes(blocks * codec.code_bytes, shift * 5 % 16, kGuardByte);
  float* left = residual_values ? residual.data() : nullptr;
  if (codec.encode != nullptr)
    (set.*codec.encode)(update.data(), left, blocks, scales.data(), codes.data());
  else
    (set.*codec.encode_rotated)(update.data(), left, sample_signs(blocks).data(), blocks,
                                scales.data(), codes.data());
  CHECK(update.guards_hold());
  CHECK(residual.guards_hold());
  CHECK(scales.guards_hold());
  CHECK(codes.guards_hold());
  CHECK(same_bytes(update.values(), update_values));
  return {scales.values(), codes.values(), residual.values()};
}

std::vector<float> add(const KernelSet& set, const Codec& codec, const Output& encoded,
                       const std::vector<float>& start, size_t shift) {
  const size_t blocks = encoded.scales.size() / 2;
  Guarded<float> into(start, shift, kGuardValue);
  Guarded<unsigned char> scales(encoded.scales, shift, kGuardByte);
  Guarded<unsigned char> codes(encoded.codes, shift * 5 % 16, kGuardByte);
  if (codec.add != nullptr)
    (set.*codec.add)(scales.data(), codes.data(), blocks, into.data());
  else
    (set.*codec.add_rotated)(scales.data(), codes.data(), sample_signs(blocks).data(), blocks,
                             into.data());
  CHECK(into.guards_hold());
  return into.values();
}

template <class Body>
void against_scalar(Body body) {
  for (const KernelSet* set : kernel_sets()) {
    if (set == &scalar() || !kernel_set_runs(*set)) continue;
    CAPTURE(std::string(set->name));
    body(*set);
  }
}

// The body once as it is and once with flush-to-zero.
template <class Body>
void with_either_zero(Body body) {
  body();
  const FlushToZero flush;
  body();
}

TEST_CASE("kernels: every set that this CPU has is tested here") {
  std::printf("kernel sets:");
  size_t vector_sets = 0;
  for (const KernelSet* set : kernel_sets()) {
    std::printf(" %s%s", set->name, kernel_set_runs(*set) ? "" : " (not on this CPU)");
    if (set->cpu_features != 0 && kernel_set_runs(*set)) ++vector_sets;
  }
  std::printf("\n");
  // Whatever the CPU offers of what sets may ask for, some set of this build must use.
  if (cpu_features() != 0) CHECK(vector_sets > 0);
}

TEST_CASE("kernels: encoders agree for 0 to 4 blocks at every misalignment") {
  against_scalar([](const KernelSet& set) {
    for (size_t blocks = 0; blocks <= kBlocksMax; ++blocks)
      for (size_t shift = 0; shift < 16; ++shift)
        for (const Codec& codec : kCodecs) {
          CAPTURE(std::string(codec.name));
          const std::vector<float> update = sample_blocks(blocks * 16 + shift, blocks);
          const std::vector<float> residual = sample_blocks(1000 + blocks * 16 + shift, blocks);
          CHECK(encode(set, codec, update, residual, shift) ==
                encode(scalar(), codec, update, residual, 0));
          CHECK(encode(set, codec, update, {}, shift) == encode(scalar(), codec, update, {}, 0));
        }
  });
}

TEST_CASE("kernels: without a residual the codes are those of an update with residual zero") {
  const std::vector<float> update = sample_blocks(1500, 20);
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    for (const Codec& codec : kCodecs) {
      const Output with = encode(*set, codec, update, std::vector<float>(update.size()), 0);
      const Output without = encode(*set, codec, update, {}, 0);
      CHECK(with.scales == without.scales);
      CHECK(with.codes == without.codes);
    }
  }
}

TEST_CASE("kernels: decoders agree for 0 to 4 blocks at every misalignment") {
  against_scalar([](const KernelSet& set) {
    for (size_t blocks = 0; blocks <= kBlocksMax; ++blocks)
      for (size_t shift = 0; shift < 16; ++shift)
        for (const Codec& codec : kCodecs) {
          CAPTURE(std::string(codec.name));
          const Output encoded =
              encode(scalar(), codec, sample_blocks(2000 + blocks * 16 + shift, blocks), {}, 0);
          const std::vector<float> start = sample_blocks(500 + shift, blocks);
          CHECK(same_bytes(add(set, codec, encoded, start, shift),
                           add(scalar(), codec, encoded, start, 0)));
        }
  });
}

// One block, mostly around 1; every eighth one tiny, so that the special value decides.
std::vector<float> special_block(size_t lane, float special) {
  std::vector<float> values(kKernelBlock);
  Random random(seed(), 3000 + lane);
  fill_block(random, lane % 8 == 0 ? -82 : 0, values.data());
  values[lane] = special;
  return values;
}

TEST_CASE("kernels: encoders treat a special number in any lane alike") {
  against_scalar([](const KernelSet& set) {
    for (size_t lane = 0; lane < kKernelBlock; ++lane)
      for (size_t s = 0; s < std::size(kSpecials); ++s) {
        const std::vector<float> update = special_block(lane, kSpecials[s]);
        const std::vector<float> residual(kKernelBlock, s % 2 == 0 ? 0.0f : 0x1p-100f);
        std::vector<Output> outputs;
        for (const Codec& codec : kCodecs)
          outputs.push_back(encode(scalar(), codec, update, residual, 0));
        with_either_zero([&] {
          size_t wrong = 0;
          for (size_t k = 0; k < outputs.size(); ++k)
            if (!(encode(set, kCodecs[k], update, residual, 0) == outputs[k])) ++wrong;
          CAPTURE(lane);
          CAPTURE(kSpecials[s]);
          CHECK(wrong == 0);
          CHECK(set.sums_in_range(update.data(), residual.data(), 1) ==
                scalar().sums_in_range(update.data(), residual.data(), 1));
          CHECK(set.sums_in_range(update.data(), nullptr, 1) ==
                scalar().sums_in_range(update.data(), nullptr, 1));
        });
      }
  });
}

TEST_CASE("kernels: decoders and the mean treat a special number in any lane alike") {
  const std::vector<float> plain = special_block(1, 1.0f);
  against_scalar([&](const KernelSet& set) {
    for (size_t lane = 0; lane < kKernelBlock; ++lane)
      for (const float special : kSpecials) {
        // Not a number may come back as any of its forms; nobody ever adds to one.
        if (!(special == special)) continue;
        const std::vector<float> start = special_block(lane, special);
        with_either_zero([&] {
          for (const Codec& codec : kCodecs) {
            const Output encoded = encode(scalar(), codec, plain, {}, 0);
            CHECK(same_bytes(add(set, codec, encoded, start, 0),
                             add(scalar(), codec, encoded, start, 0)));
          }
          for (const bool in_sum : {false, true}) {
            std::vector<float> got = in_sum ? plain : start;
            std::vector<float> want = got;
            const std::vector<float>& sum = in_sum ? start : plain;
            set.apply_mean(sum.data(), 3.0f, 0.75f, 1, got.data());
            scalar().apply_mean(sum.data(), 3.0f, 0.75f, 1, want.data());
            CHECK(same_bytes(got, want));
          }
        });
      }
  });
}

TEST_CASE("kernels: a block out of range keeps its residual and gets the refused scale") {
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    std::vector<float> update = sample_blocks(4000, 1);
    update[100] = 0x1p119f;
    const std::vector<float> residual = sample_blocks(4001, 1);
    for (const Codec& codec : kCodecs) {
      const Output out = encode(*set, codec, update, residual, 0);
      CHECK(out.scales == std::vector<unsigned char>{0xC0, 0x7F});
      CHECK(out.codes == std::vector<unsigned char>(codec.code_bytes));
      CHECK(same_bytes(out.values, residual));
    }
  }
}

TEST_CASE("kernels: sums of 0 to 70 terms agree at every misalignment") {
  against_scalar([](const KernelSet& set) {
    for (size_t count : {0u, 1u, 2u, 3u, 8u, 70u})
      for (const Codec& codec : kCodecs) {
        Random random(seed(), 5000 + count);
        std::vector<Output> encoded;
        std::vector<BlockTerm> terms;
        for (size_t t = 0; t < count; ++t)
          encoded.push_back(encode(scalar(), codec, sample_blocks(6000 + t, 1), {}, 0));
        for (const Output& block : encoded)
          terms.push_back(
              {round_weight(random.unit()) * bf16_to_float(load_bf16(block.scales.data(), 0)),
               block.codes.data()});
        for (size_t shift = 0; shift < 16; ++shift) {
          Guarded<float> got(std::vector<float>(kKernelBlock), shift, kGuardValue);
          std::vector<float> want(kKernelBlock);
          (set.*codec.sum)(terms.data(), count, got.data());
          (scalar().*codec.sum)(terms.data(), count, want.data());
          CHECK(got.guards_hold());
          CHECK(same_bytes(got.values(), want));
        }
      }
  });
}

TEST_CASE("kernels: the inverse rotation of a sum agrees") {
  against_scalar([](const KernelSet& set) {
    const std::vector<uint64_t> signs = sample_signs(1);
    for (uint64_t repeat = 0; repeat < 50; ++repeat) {
      Random random(seed(), 7000 + repeat);
      std::vector<float> rotated(kKernelBlock);
      fill_block(random, -3, rotated.data());
      std::vector<float> rotated_scalar = rotated;
      std::vector<float> want(kKernelBlock);
      fill_block(random, -3, want.data());
      Guarded<float> got(want, repeat % 16, kGuardValue);
      set.unrotate_add(rotated.data(), signs.data(), got.data());
      scalar().unrotate_add(rotated_scalar.data(), signs.data(), want.data());
      CHECK(got.guards_hold());
      CHECK(same_bytes(got.values(), want));
    }
  });
}

TEST_CASE("kernels: means agree for 0 to 4 blocks at every misalignment") {
  against_scalar([](const KernelSet& set) {
    for (size_t blocks = 0; blocks <= kBlocksMax; ++blocks)
      for (size_t shift = 0; shift < 16; ++shift)
        for (const float keep : {1.0f, 0.999f}) {
          Guarded<float> sum(sample_blocks(8000 + shift, blocks), shift, kGuardValue);
          std::vector<float> want = sample_blocks(8100 + shift, blocks);
          Guarded<float> got(want, shift * 3 % 16, kGuardValue);
          set.apply_mean(sum.data(), 5.25f, keep, blocks, got.data());
          scalar().apply_mean(sum.data(), 5.25f, keep, blocks, want.data());
          CHECK(got.guards_hold());
          CHECK(same_bytes(got.values(), want));
        }
  });
}

TEST_CASE("kernels: differences agree for 0 to 4 blocks, with special numbers, at any place") {
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    for (size_t blocks = 0; blocks <= kBlocksMax; ++blocks)
      for (size_t shift = 0; shift < 16; ++shift) {
        std::vector<float> minuend = sample_blocks(9000 + shift, blocks);
        for (size_t i = shift; i < minuend.size(); i += 37) minuend[i] = kSpecials[i % 12 + 3];
        Guarded<float> a(minuend, shift, kGuardValue);
        Guarded<float> b(sample_blocks(9100 + shift, blocks), shift * 3 % 16, kGuardValue);
        Guarded<float> got(minuend.size(), shift * 5 % 16, kGuardValue);
        CHECK(set->subtract(a.data(), b.data(), blocks, got.data()));
        CHECK(got.guards_hold());
        std::vector<float> want(minuend.size());
        for (size_t i = 0; i < want.size(); ++i) want[i] = minuend[i] - b.data()[i];
        CHECK(same_bytes(got.values(), want));
      }
    std::vector<float> values(2 * kKernelBlock, 1.0f);
    std::vector<float> difference(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      for (const float special : {0x1p119f, -kInfinity, kSpecials[0]}) {
        std::vector<float> a = values;
        a[i] = special;
        REQUIRE(!set->subtract(a.data(), values.data(), 2, difference.data()));
      }
  }
}

TEST_CASE("kernels: sums_in_range sees the one value out of range in any place") {
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    const std::vector<float> zeros(2 * kKernelBlock);
    std::vector<float> values(2 * kKernelBlock, 1.0f);
    CHECK(set->sums_in_range(values.data(), zeros.data(), 0));
    CHECK(set->sums_in_range(values.data(), zeros.data(), 2));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0x1p119f;
      REQUIRE(!set->sums_in_range(values.data(), zeros.data(), 2));
      REQUIRE(!set->sums_in_range(values.data(), nullptr, 2));
      values[i] = 1.0f;
    }
  }
}

}  // namespace
}  // namespace paceline::test
