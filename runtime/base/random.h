// Counter-based random numbers: value i of stream (seed, stream) is a pure function of the three.
//
// The same on every machine and compiler; nothing of std:: distributions or libm is used, so what
// is drawn here may be sent, summed or used for a model's start. Not for keys or anything secret.
// Source: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), used as a hash of the counter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace paceline {

// Advances `state` and returns the next output of splitmix64.
constexpr uint64_t splitmix64(uint64_t& state) {
  state += 0x9E3779B97F4A7C15ull;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

constexpr uint64_t hash64(uint64_t value) { return splitmix64(value); }

// A cursor on one stream. Copy it to branch; two equal cursors give equal values for ever.
class Random {
 public:
  constexpr Random(uint64_t seed, uint64_t stream)
      : key_(hash64(hash64(seed) ^ (stream * 0xD1342543DE82EF95ull))) {}

  constexpr uint64_t next() { return hash64(key_ ^ (counter_++ * 0x2545F4914F6CDD1Dull)); }

  // Uniform in [0, bound), without bias. bound > 0.
  constexpr uint64_t below(uint64_t bound) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = next();
    while (value >= limit) value = next();
    return value % bound;
  }
  // Uniform multiples of 2^-53 in [0, 1).
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Uniform multiples of 2^-24 in [-1, 1).
  constexpr float symmetric() {
    return static_cast<float>(static_cast<int32_t>(next() >> 39) - (1 << 24)) * 0x1p-24f;
  }

  constexpr uint64_t counter() const { return counter_; }
  constexpr void seek(uint64_t counter) { counter_ = counter; }

  // Fisher-Yates.
  template <class T>
  constexpr void shuffle(std::span<T> items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<size_t>(below(i))]);
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace paceline
