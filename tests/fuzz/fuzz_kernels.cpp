// Any float32 bits and any codes: every kernel set writes the bytes that the scalar one writes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/rotation.h"

namespace {

using namespace paceline;

constexpr size_t kBlocksMax = 16;

struct Input {
  size_t blocks = 0;
  std::vector<float> update, residual;
  std::vector<uint64_t> signs;
  std::vector<unsigned char> scales, codes;  // legal scales, any codes
};

// Bytes are repeated until they fill the blocks, so that short inputs are whole ones.
Input make_input(const uint8_t* data, size_t size) {
  Input input;
  input.blocks = std::clamp<size_t>(size / (8 * kKernelBlock), 1, kBlocksMax);
  const size_t count = input.blocks * kKernelBlock;
  std::vector<unsigned char> bytes(8 * count);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = data[i % size];
  input.update.resize(count);
  input.residual.resize(count);
  std::memcpy(input.update.data(), bytes.data(), 4 * count);
  std::memcpy(input.residual.data(), bytes.data() + 4 * count, 4 * count);
  input.signs.resize(input.blocks * kSignWords);
  input.scales.resize(2 * input.blocks);
  for (size_t b = 0; b < input.blocks; ++b) {
    rotation_signs({bytes[0], bytes[1]}, b, &input.signs[b * kSignWords]);
    const uint32_t exponent = 127 - 90 + bytes[b] % 200;
    store_bf16(input.scales.data(), b, exponent << 7 | (bytes[b + 1] & 0x7F));
  }
  input.codes.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
  return input;
}

// Everything that a set writes for an input, one after the other.
class Output {
 public:
  Output(const KernelSet& set, const Input& input) : set_(set), input_(input) {
    encode(256, [&](const float* u, float* r, unsigned char* s, unsigned char* c) {
      set_.encode_q8(u, r, input_.blocks, s, c);
    });
    encode(32, [&](const float* u, float* r, unsigned char* s, unsigned char* c) {
      set_.encode_s1(u, r, input_.blocks, s, c);
    });
    encode(32, [&](const float* u, float* r, unsigned char* s, unsigned char* c) {
      set_.encode_s1r(u, r, input_.signs.data(), input_.blocks, s, c);
    });
    encode(128, [&](const float* u, float* r, unsigned char* s, unsigned char* c) {
      set_.encode_q4(u, r, input_.blocks, s, c);
    });
    encode(128, [&](const float* u, float* r, unsigned char* s, unsigned char* c) {
      set_.encode_q4r(u, r, input_.signs.data(), input_.blocks, s, c);
    });
    const unsigned char* scales = input.scales.data();
    const unsigned char* codes = input.codes.data();
    const uint64_t* signs = input.signs.data();
    const size_t blocks = input.blocks;
    decode([&](float* into) { set_.add_q8(scales, codes, blocks, into); });
    decode([&](float* into) { set_.add_s1(scales, codes, blocks, into); });
    decode([&](float* into) { set_.add_s1r(scales, codes, signs, blocks, into); });
    decode([&](float* into) { set_.add_q4(scales, codes, blocks, into); });
    decode([&](float* into) { set_.add_q4r(scales, codes, signs, blocks, into); });
    sum(256, set.sum_q8);
    sum(32, set.sum_s1);
    sum(128, set.sum_q4);
    select();
    for (const bool at_once : {false, true}) close(at_once && set.close_q8 != nullptr);
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  void put(const void* from, size_t size) {
    const auto* begin = static_cast<const unsigned char*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(values.data(), values.size() * sizeof(T));
  }

  template <class Encode>
  void encode(size_t code_bytes, Encode encode) {
    std::vector<float> residual = input_.residual;
    std::vector<unsigned char> scales(2 * input_.blocks);
    std::vector<unsigned char> codes(code_bytes * input_.blocks);
    encode(input_.update.data(), residual.data(), scales.data(), codes.data());
    put(residual);
    put(scales);
    put(codes);
  }

  // Into what the encoder would have left there: 0.
  template <class Decode>
  void decode(Decode decode) {
    std::vector<float> into(input_.blocks * kKernelBlock);
    decode(into.data());
    put(into);
  }

  void sum(size_t code_bytes, decltype(KernelSet::sum_q8) kernel) {
    std::vector<BlockTerm> terms;
    for (size_t b = 0; b < input_.blocks; ++b)
      terms.push_back({0.75f * bf16_to_float(load_bf16(input_.scales.data(), b) & 0x3FFF),
                       input_.codes.data() + b * code_bytes});
    std::vector<float> acc(kKernelBlock);
    kernel(terms.data(), terms.size(), acc.data());
    put(acc);
    std::vector<float> into(kKernelBlock);
    set_.unrotate_add(acc.data(), input_.signs.data(), into.data());
    put(into);
  }

  // TK's passes run after the check of the range only.
  void select() {
    const bool in_range =
        set_.sums_in_range(input_.update.data(), input_.residual.data(), input_.blocks);
    put(&in_range, 1);
    if (!in_range) return;
    std::vector<uint32_t> maxima(32 * input_.blocks);
    std::vector<float> c;
    for (const size_t strip : {32u, 8u}) {
      c = input_.residual;
      const uint32_t largest =
          set_.gather_maxima(input_.update.data(), c.data(), input_.blocks, strip, maxima.data());
      put(&largest, sizeof largest);
      put(c);
      put(maxima);
      const uint32_t sent =
          set_.gather_maxima(input_.update.data(), nullptr, input_.blocks, strip, maxima.data());
      put(&sent, sizeof sent);
      put(maxima);
    }
    for (const uint32_t least : {maxima[0], maxima[maxima.size() / 2], 1u}) {
      std::vector<uint16_t> positions(c.size() + 16);
      positions.resize(
          set_.find_large(c.data(), input_.blocks, std::max(least, 1u), positions.data()));
      put(positions);
    }
  }

  // The residual is the master, and the sum is taken for what is published, too. What is out of
  // range is of no use, and may hold any form of not-a-number.
  void close(bool at_once) {
    std::vector<float> master = input_.residual;
    std::vector<float> next(master.size()), difference(master.size());
    std::vector<unsigned char> scales(2 * input_.blocks), codes(master.size());
    const float* sum = input_.update.data();
    const ClosingBlocks closing{sum, 2.75f, 0.75f, master.data(), sum, next.data(), input_.blocks};
    const bool in_range = at_once ? set_.close_q8(closing, scales.data(), codes.data())
                                  : set_.close(closing, difference.data());
    put(&in_range, 1);
    if (!in_range) return;
    if (!at_once) {
      set_.encode_q8(difference.data(), nullptr, input_.blocks, scales.data(), codes.data());
      set_.add_q8(scales.data(), codes.data(), input_.blocks, next.data());
    }
    put(master);
    put(scales);
    put(codes);
    put(next);
  }

  const KernelSet& set_;
  const Input& input_;
  std::vector<unsigned char> bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Input input = make_input(data, size);
  const Output want(*kernel_sets().back(), input);
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    PACELINE_CHECK(Output(*set, input).bytes() == want.bytes());
  }
  return 0;
}
