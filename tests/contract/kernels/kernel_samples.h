// What the tests of kernels share: numbers of every kind, areas with guards, every set of this CPU.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "runtime/quant/dispatch.h"
#include "tests/golden/flush_to_zero.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {

inline constexpr size_t kBlocksMax = 4;
inline constexpr size_t kGuard = 16;
inline constexpr float kGuardValue = 77.0f;
inline constexpr unsigned char kGuardByte = 0x5A;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kSpecials[] = {std::numeric_limits<float>::quiet_NaN(),
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

inline const KernelSet& scalar() { return *kernel_sets().back(); }

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
inline std::vector<float> sample_blocks(uint64_t stream, size_t blocks) {
  Random random(seed(), stream);
  std::vector<float> values(blocks * kKernelBlock);
  constexpr int kExponents[] = {-2, 0, 40, 100, -59, -61, -79, -80, -81, -89, -91, -100, -120};
  for (size_t b = 0; b < blocks; ++b)
    fill_block(random, kExponents[random.below(std::size(kExponents))],
               values.data() + b * kKernelBlock);
  return values;
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

}  // namespace paceline::test
