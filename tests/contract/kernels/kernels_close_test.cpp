// What a round's end does to a model gives the bytes of the scalar steps, taken one by one, on
// every kernel set: for any number of blocks, at any address, for any number in any lane, with
// flush-to-zero on or off.
#include <doctest/doctest.h>

#include <string>

#include "tests/contract/kernels/kernel_samples.h"

namespace paceline::test {
namespace {

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

// What a close makes of blocks, codes included; `in_range` false: nothing of it counts.
struct Closed {
  bool in_range = false;
  Output delta;  // values: next
  std::vector<float> master;
  bool operator==(const Closed& other) const {
    if (!in_range || !other.in_range) return in_range == other.in_range;
    return delta == other.delta && same_bytes(master, other.master);
  }
};

struct CloseInput {
  std::vector<float> sum;
  std::vector<float> master;
  std::vector<float> published;
  float keep = 1;
};

// Published is near the master, as after many rounds, or far from it.
CloseInput close_input(uint64_t stream, size_t blocks) {
  CloseInput input{sample_blocks(stream, blocks), sample_blocks(stream + 1, blocks),
                   sample_blocks(stream + 2, blocks), stream % 2 == 0 ? 1.0f : 0.999f};
  if (stream % 3 == 0) input.published = input.master;
  return input;
}

// The steps one by one, by the scalar loops.
Closed close_in_steps(const CloseInput& input) {
  const size_t blocks = input.sum.size() / kKernelBlock;
  std::vector<float> difference(input.sum.size());
  Closed closed{true, {std::vector<unsigned char>(blocks * 2), {}, input.published}, input.master};
  closed.delta.codes.resize(input.sum.size());
  scalar().apply_mean(input.sum.data(), 5.25f, input.keep, blocks, closed.master.data());
  closed.in_range =
      scalar().subtract(closed.master.data(), input.published.data(), blocks, difference.data());
  scalar().encode_q8(difference.data(), nullptr, blocks, closed.delta.scales.data(),
                     closed.delta.codes.data());
  scalar().add_q8(closed.delta.scales.data(), closed.delta.codes.data(), blocks,
                  closed.delta.values.data());
  return closed;
}

// As `set` does it: in one go if `fused`, else with close() and the steps around it.
Closed close_blocks(const KernelSet& set, bool fused, const CloseInput& input, size_t shift) {
  const size_t blocks = input.sum.size() / kKernelBlock;
  Guarded<float> sum(input.sum, shift, kGuardValue);
  Guarded<float> master(input.master, shift * 3 % 16, kGuardValue);
  Guarded<float> published(input.published, shift * 5 % 16, kGuardValue);
  Guarded<float> next(input.sum.size(), shift * 7 % 16, kGuardValue);
  Guarded<float> difference(input.sum.size(), shift, kGuardValue);
  Guarded<unsigned char> scales(blocks * 2, shift, kGuardByte);
  Guarded<unsigned char> codes(input.sum.size(), shift * 5 % 16, kGuardByte);
  const ClosingBlocks closing{sum.data(),       5.25f,       input.keep, master.data(),
                              published.data(), next.data(), blocks};
  bool in_range = false;
  if (fused) {
    in_range = set.close_q8(closing, scales.data(), codes.data());
  } else {
    in_range = set.close(closing, difference.data());
    set.encode_q8(difference.data(), nullptr, blocks, scales.data(), codes.data());
    set.add_q8(scales.data(), codes.data(), blocks, next.data());
  }
  for (const Guarded<float>* area : {&sum, &master, &published, &next, &difference})
    CHECK(area->guards_hold());
  CHECK(scales.guards_hold());
  CHECK(codes.guards_hold());
  CHECK(same_bytes(sum.values(), input.sum));
  CHECK(same_bytes(published.values(), input.published));
  return {in_range, {scales.values(), codes.values(), next.values()}, master.values()};
}

// Both ways that a set has.
bool closes_agree(const KernelSet& set, const CloseInput& input, size_t shift, const Closed& want) {
  return close_blocks(set, false, input, shift) == want &&
         (set.close_q8 == nullptr || close_blocks(set, true, input, shift) == want);
}

TEST_CASE("kernels: closes agree with their steps for 0 to 4 blocks at every misalignment") {
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    CAPTURE(std::string(set->name));
    for (size_t blocks = 0; blocks <= kBlocksMax; ++blocks)
      for (size_t shift = 0; shift < 16; ++shift)
        for (uint64_t stream = 0; stream < 6; ++stream) {
          const CloseInput input = close_input(10'000 + 3 * (16 * stream + shift), blocks);
          CHECK(closes_agree(*set, input, shift, close_in_steps(input)));
        }
  }
}

TEST_CASE("kernels: closes treat a special number in any lane alike") {
  for (size_t lane = 0; lane < kKernelBlock; ++lane)
    for (const float special : kSpecials)
      for (std::vector<float> CloseInput::*place :
           {&CloseInput::sum, &CloseInput::master, &CloseInput::published}) {
        CloseInput input = close_input(11'000 + lane, 1);
        (input.*place)[lane] = special;
        const Closed want = close_in_steps(input);
        size_t wrong = 0;
        for (const KernelSet* set : kernel_sets())
          if (kernel_set_runs(*set))
            with_either_zero([&] { wrong += closes_agree(*set, input, 0, want) ? 0 : 1; });
        CAPTURE(lane);
        CAPTURE(special);
        CHECK(wrong == 0);
      }
}

TEST_CASE("kernels: the mean treats a special number in any lane alike") {
  against_scalar([](const KernelSet& set) {
    for (size_t lane = 0; lane < kKernelBlock; ++lane)
      for (const float special : kSpecials)
        for (const bool in_sum : {false, true}) {
          // Not a number may come back as any of its forms; nobody ever adds to one.
          if (!(special == special)) continue;
          std::vector<float> sum = sample_blocks(12'000 + lane, 1);
          const std::vector<float> start = sample_blocks(12'001 + lane, 1);
          std::vector<float> want = start;
          (in_sum ? sum : want)[lane] = special;
          const std::vector<float> before = want;
          scalar().apply_mean(sum.data(), 3.0f, 0.75f, 1, want.data());
          with_either_zero([&] {
            std::vector<float> got = before;
            set.apply_mean(sum.data(), 3.0f, 0.75f, 1, got.data());
            CHECK(same_bytes(got, want));
          });
        }
  });
}

}  // namespace
}  // namespace paceline::test
