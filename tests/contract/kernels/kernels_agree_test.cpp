// Every kernel set gives the bytes of the scalar one: for any number of blocks, at any address, for
// any number in any lane, with flush-to-zero on or off, and without a write outside its blocks.
#include <doctest/doctest.h>

#include <cstdio>
#include <optional>
#include <string>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/rotation.h"
#include "tests/contract/kernels/kernel_samples.h"

namespace paceline::test {
namespace {

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

TEST_CASE("kernels: decoders treat a special number in any lane alike") {
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
