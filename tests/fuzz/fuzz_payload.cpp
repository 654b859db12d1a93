// Any bytes as a payload: verify_payload() gives an error, or a payload that decodes to finite
// values and +0 pads, and to the same bytes on every kernel set. Checksums are mended first: no
// fuzzer would find one.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"
#include "tests/fuzz/payload_layout.h"

namespace {

using namespace paceline;

constexpr uint64_t kSeed = 1;

struct Decoded {
  std::vector<float> added;
  std::vector<float> summed;
};

Decoded decode_on(const KernelSet& set, const ParameterLayout& layout, const PayloadView& view) {
  use_kernels(set);
  Decoded decoded{std::vector<float>(layout.element_count()),
                  std::vector<float>(layout.element_count())};
  add_payload(layout, view, kSeed, decoded.added);
  // Weights whose sum is below 1, so that nothing legal adds up to infinity.
  const WeightedPayload payloads[] = {{view, 0.25f}, {view, 0x1p-12f}, {view, 0.25f}};
  sum_payloads(layout, 0, payloads, kSeed, decoded.summed);
  return decoded;
}

void check_values(const ParameterLayout& layout, const std::vector<float>& values) {
  for (const float value : values) PACELINE_CHECK(std::isfinite(value));
  for (const BlockRun& run : layout.runs())
    for (size_t i = run.element_count; i < size_t{run.block_count} * kBlockElements; ++i)
      PACELINE_CHECK(values[size_t{run.first_block} * kBlockElements + i] == 0);
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ParameterLayout layout = payload_layout();
  Bytes payload(reinterpret_cast<const std::byte*>(data),
                reinterpret_cast<const std::byte*>(data) + size);
  if (size >= 28) {
    std::memset(payload.data() + 24, 0, 4);
    const uint32_t crc = crc32c(payload);
    std::memcpy(payload.data() + 24, &crc, 4);
  }
  const Result<PayloadView> view = verify_payload(layout, 0, payload);
  if (!view) {
    PACELINE_CHECK(view.error().code() == Code::kCorrupt);
    return 0;
  }
  PACELINE_CHECK(std::isfinite(payload_norm_squared(layout, *view)));
  const Decoded want = decode_on(*kernel_sets().back(), layout, *view);
  check_values(layout, want.added);
  check_values(layout, want.summed);
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    const Decoded got = decode_on(*set, layout, *view);
    PACELINE_CHECK(same_bytes(got.added, want.added));
    PACELINE_CHECK(same_bytes(got.summed, want.summed));
  }
  return 0;
}
