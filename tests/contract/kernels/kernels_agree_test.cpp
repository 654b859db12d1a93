// Every kernel set gives the bytes of the scalar one: for any number of blocks, at any address, for
// any number in any lane, and without a write outside its blocks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/rotation.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr size_t kBlocksMax = 4;
constexpr size_t kGuard = 16;
constexpr float kGuardValue = 77.0f;
constexpr unsigned char kGuardByte = 0x5A;

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
  constexpr int kExponents[] = {-2, 0, 40, 100, -79, -80, -81, -89, -91, -100, -120};
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

enum class Codec { kQ8, kS1, kS1r };
constexpr Codec kCodecs[] = {Codec::kQ8, Codec::kS1, Codec::kS1r};
size_t code_bytes(Codec codec) { return codec == Codec::kQ8 ? 256 : 32; }

Output encode(const KernelSet& set, Codec codec, const std::vector<float>& update_values,
              const std::vector<float>& residual_values, size_t shift) {
  const size_t count = update_values.size();
  const size_t blocks = count / kKernelBlock;
  Guarded<float> update(count, shift, kGuardValue);
  Guarded<float> residual(count, (shift * 3) % 8, kGuardValue);
  std::copy(update_values.begin(), update_values.end(), update.data());
  std::copy(residual_values.begin(), residual_values.end(), residual.data());
  Guarded<unsigned char> scales(blocks * 2, shift, kGuardByte);
  Guarded<unsigned char> codes(blocks * code_bytes(codec), shift * 5 % 8, kGuardByte);
  const std::vector<uint64_t> signs = sample_signs(blocks);
  if (codec == Codec::kQ8)
    set.encode_q8(update.data(), residual.data(), blocks, scales.data(), codes.data());
  else if (codec == Codec::kS1)
    set.encode_s1(update.data(), residual.data(), blocks, scales.data(), codes.data());
  else
    set.encode_s1r(update.data(), residual.data(), signs.data(), blocks, scales.data(),
                   codes.data());
  CHECK(update.guards_hold());
  CHECK(residual.guards_hold());
  CHECK(scales.guards_hold());
  CHECK(codes.guards_hold());
  CHECK(same_bytes(update.values(), update_values));
  return {scales.values(), codes.values(), residual.values()};
}

std::vector<float> add(const KernelSet& set, Codec codec, const Output& encoded, size_t shift) {
  const size_t blocks = encoded.scales.size() / 2;
  Guarded<float> into(blocks * kKernelBlock, shift, kGuardValue);
  const std::vector<float> start = sample_blocks(500 + shift, blocks);
  std::copy(start.begin(), start.end(), into.data());
  Guarded<unsigned char> scales(blocks * 2, shift, kGuardByte);
  Guarded<unsigned char> codes(encoded.codes.size(), shift * 5 % 8, kGuardByte);
  std::copy(encoded.scales.begin(), encoded.scales.end(), scales.data());
  std::copy(encoded.codes.begin(), encoded.codes.end(), codes.data());
  if (codec == Codec::kQ8)
    set.add_q8(scales.data(), codes.data(), blocks, into.data());
  else if (codec == Codec::kS1)
    set.add_s1(scales.data(), codes.data(), blocks, into.data());
  else
    set.add_s1r(scales.data(), codes.data(), sample_signs(blocks).data(), blocks, into.data());
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
      for (size_t shift = 0; shift < 8; ++shift)
        for (Codec codec : kCodecs) {
          const std::vector<float> update = sample_blocks(blocks * 8 + shift, blocks);
          const std::vector<float> residual = sample_blocks(1000 + blocks * 8 + shift, blocks);
          CHECK(encode(set, codec, update, residual, shift) ==
                encode(scalar(), codec, update, residual, 0));
        }
  });
}

TEST_CASE("kernels: decoders agree for 0 to 4 blocks at every misalignment") {
  against_scalar([](const KernelSet& set) {
    for (size_t blocks = 0; blocks <= kBlocksMax; ++blocks)
      for (size_t shift = 0; shift < 8; ++shift)
        for (Codec codec : kCodecs) {
          const std::vector<float> zeros(blocks * kKernelBlock);
          const Output encoded =
              encode(scalar(), codec, sample_blocks(2000 + blocks * 8 + shift, blocks), zeros, 0);
          CHECK(same_bytes(add(set, codec, encoded, shift), add(scalar(), codec, encoded, shift)));
        }
  });
}

TEST_CASE("kernels: a special number in any lane is treated alike") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float specials[] = {std::numeric_limits<float>::quiet_NaN(),
                            infinity,
                            -infinity,
                            -0.0f,
                            0x1p-149f,
                            -0x1.fffffcp-127f,
                            0x1p-126f,
                            0x1.fffffep-91f,
                            -0x1p-90f,
                            0x1p-80f,
                            0x1.fffffep-81f,
                            0x1.fffffep118f,
                            -0x1p119f,
                            0x1p127f};
  against_scalar([&](const KernelSet& set) {
    for (size_t lane = 0; lane < kKernelBlock; ++lane)
      for (size_t s = 0; s < std::size(specials); ++s) {
        // One in eight of the blocks is tiny, so that the special value decides.
        std::vector<float> update(kKernelBlock);
        Random random(seed(), 3000 + lane);
        fill_block(random, lane % 8 == 0 ? -82 : 0, update.data());
        update[lane] = specials[s];
        const std::vector<float> residual(kKernelBlock, s % 2 == 0 ? 0.0f : 0x1p-100f);
        for (Codec codec : kCodecs)
          if (!(encode(set, codec, update, residual, 0) ==
                encode(scalar(), codec, update, residual, 0))) {
            CAPTURE(lane);
            CAPTURE(specials[s]);
            CAPTURE(static_cast<int>(codec));
            CHECK(false);
          }
        CHECK(set.sums_in_range(update.data(), residual.data(), 1) ==
              scalar().sums_in_range(update.data(), residual.data(), 1));
      }
  });
}

TEST_CASE("kernels: a block out of range keeps its residual and gets the refused scale") {
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    std::vector<float> update = sample_blocks(4000, 1);
    update[100] = 0x1p119f;
    const std::vector<float> residual = sample_blocks(4001, 1);
    for (Codec codec : kCodecs) {
      const Output out = encode(*set, codec, update, residual, 0);
      CHECK(out.scales == std::vector<unsigned char>{0xC0, 0x7F});
      CHECK(out.codes == std::vector<unsigned char>(code_bytes(codec)));
      CHECK(same_bytes(out.values, residual));
    }
  }
}

TEST_CASE("kernels: sums of 0 to 70 terms agree at every misalignment") {
  against_scalar([](const KernelSet& set) {
    for (size_t count : {0u, 1u, 2u, 3u, 8u, 70u})
      for (Codec codec : {Codec::kQ8, Codec::kS1}) {
        Random random(seed(), 5000 + count);
        std::vector<Output> encoded;
        std::vector<BlockTerm> terms;
        for (size_t t = 0; t < count; ++t)
          encoded.push_back(encode(scalar(), codec, sample_blocks(6000 + t, 1),
                                   std::vector<float>(kKernelBlock), 0));
        for (const Output& block : encoded)
          terms.push_back(
              {round_weight(random.unit()) * bf16_to_float(load_bf16(block.scales.data(), 0)),
               block.codes.data()});
        for (size_t shift = 0; shift < 8; ++shift) {
          Guarded<float> got(kKernelBlock, shift, kGuardValue);
          Guarded<float> want(kKernelBlock, 0, kGuardValue);
          memset(got.data(), 0, kKernelBlock * sizeof(float));
          memset(want.data(), 0, kKernelBlock * sizeof(float));
          (codec == Codec::kQ8 ? set.sum_q8 : set.sum_s1)(terms.data(), count, got.data());
          (codec == Codec::kQ8 ? scalar().sum_q8 : scalar().sum_s1)(terms.data(), count,
                                                                    want.data());
          CHECK(got.guards_hold());
          CHECK(same_bytes(got.values(), want.values()));
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
      Guarded<float> got(kKernelBlock, repeat % 8, kGuardValue);
      Guarded<float> want(kKernelBlock, 0, kGuardValue);
      fill_block(random, -3, got.data());
      memcpy(want.data(), got.data(), kKernelBlock * sizeof(float));
      set.unrotate_add(rotated.data(), signs.data(), got.data());
      scalar().unrotate_add(rotated_scalar.data(), signs.data(), want.data());
      CHECK(got.guards_hold());
      CHECK(same_bytes(got.values(), want.values()));
    }
  });
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
      values[i] = 1.0f;
    }
  }
}

}  // namespace
}  // namespace paceline::test
