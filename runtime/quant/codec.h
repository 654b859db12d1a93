// Turns an update into payloads for the wire, and back; sums the payloads of many workers.
//
// The unit is the chunk (parameter_layout.h): one payload carries one chunk's blocks. What a codec
// loses stays with the caller as a residual. The same input gives the same bytes on every kernel
// set, compiler and machine (docs/wire_format.md, docs/decisions/0004). No function here holds
// state, touches a clock or allocates beyond the vectors that it is given to fill; all are safe to
// call from several threads on different data.
//
// Flat vectors have layout.element_count() elements, pads included; pads are +0 and stay +0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"

namespace paceline {

enum class CodecId : uint8_t {
#define CODEC(id, enumerator, name) enumerator = id,
#include "runtime/quant/codecs.inc"
#undef CODEC
};

struct CodecInfo {
  CodecId id;
  const char* name;         // as in configuration: "s1r"
  double bits_per_element;  // on wide blocks, scales included; TK: where no gap is long
  const char* use;          // one line for people
  bool lossy;               // needs a residual
  // Share of |update + residual|^2 that it keeps back once its residual has settled
  // (docs/content.md).
  double kept_back;
  // Why it may not carry deltas, and what may; null if it may.
  const char* refused_down = nullptr;
};

std::span<const CodecInfo> codecs();
const CodecInfo& codec_info(CodecId id);
// Errors: kInvalidArgument with the list of names.
Result<CodecId> codec_by_name(std::string_view name);
// Errors: kInvalidArgument with the reason if the codec may not carry deltas.
Status check_codec_down(CodecId id);
// Errors: kCorrupt. For numbers from the wire.
Result<CodecId> codec_by_wire_id(uint8_t id);

// Which rotation S1R and Q4R apply to a block: D depends on (seed, key, block). Up: the run's seed
// and the publication number of the update's base. Down: downlink_seed(seed) and the number of the
// publication that the delta leads to. Other codecs ignore it.
struct RotationKey {
  uint64_t seed = 0;
  uint64_t key = 0;
};
uint64_t downlink_seed(uint64_t run_seed);

// One update, encoded whole. Vectors keep their capacity from use to use.
struct EncodedUpdate {
  CodecId codec = CodecId::kRaw32;
  std::vector<Bytes> chunks;  // chunks[i] is the payload of layout.chunk(i)
  uint32_t checksum = 0;      // CRC-32C over the chunks in order
  size_t bytes() const;
};

// Encodes c = update + residual and leaves in `residual` what the payloads do not carry
// (0 for lossless codecs). `rotation.key` is also written into each header.
//   update    [element_count] weight units
//   residual  [element_count] in: what earlier payloads left; out: c - decoded
// Errors: kInvalidArgument if any |c| >= 2^119 or is NaN or infinite; found before `residual` or
// `out` is touched.
Status encode_update(const ParameterLayout& layout, CodecId codec, RotationKey rotation,
                     std::span<const float> update, std::span<float> residual, EncodedUpdate* out);

// A payload from the network, verified: its header and every scale and code are legal for its
// chunk.
class PayloadView {
 public:
  CodecId codec() const { return codec_; }
  uint32_t chunk() const { return chunk_; }
  uint64_t key() const { return key_; }  // the rotation key that its header names

 private:
  friend Result<PayloadView> verify_payload(const ParameterLayout&, uint32_t, ByteSpan);
  friend struct PayloadAccess;
  CodecId codec_ = CodecId::kRaw32;
  uint32_t chunk_ = 0;
  uint64_t key_ = 0;
  bool absolute_ = false;
  ByteSpan bytes_;
};

// Checks everything before anything is used: magic, version, ids, range against
// layout.chunk(chunk), exact length, CRC, finite non-negative scales, no code that encoders do not
// write, entries within their group, finite raw values below 2^119, no set reserved bit. The view
// borrows `bytes`. Errors: kCorrupt, naming the field.
Result<PayloadView> verify_payload(const ParameterLayout& layout, uint32_t chunk, ByteSpan bytes);

// into[chunk's elements] += decoded. Un-send: add a refused payload back to the residual, then
// residuals below 2^-90 become +0. (Elements that TK has no entry for keep their bits.)
void add_payload(const ParameterLayout& layout, const PayloadView& payload, uint64_t seed,
                 std::span<float> into);

// Sum of decoded^2 over one payload, in double, fixed order. For norm rules.
double payload_norm_squared(const ParameterLayout& layout, const PayloadView& payload);

// One worker's payload of a chunk and its weight. The weight is a bf16 number (8 significant bits).
struct WeightedPayload {
  PayloadView payload;
  float weight = 0;
};

// sum[chunk's elements] = weighted sum of `payloads`, all of chunk `chunk` and given in worker-id
// order; the bytes depend on that order alone, not on arrival. Codecs and keys may be mixed.
// One pass from +0 in order for all unrotated blocks; then per rotation key, ascending, the rotated
// sum from +0 in order, one inverse per block, added.
void sum_payloads(const ParameterLayout& layout, uint32_t chunk,
                  std::span<const WeightedPayload> payloads, uint64_t seed, std::span<float> sum);

// Rounds to bf16, half to even; weight > 0 and far from where float32 ends.
float round_bf16(double weight);
// The same, not below 2^-12: the form of every worker weight P.
float round_weight(double weight);

// What a close does to the master (docs/wire_format.md), element by element:
//   acc = |sum| < 2^-100 ? +0 : sum;  mean = acc / divisor;  |mean| < 2^-90 -> +0;
//   master = master * keep + mean (two operations; keep == 1 skips the first);  |master| < 2^-90 ->
//   +0
void apply_mean(std::span<const float> sum, float divisor, float keep, std::span<float> master);

// Publishes: encodes master - published (RAW32: master itself, absolute), adds what the payloads
// decode to onto `published` exactly as every worker will. Key of the payloads = the new
// publication's number. Errors: kInvalidArgument for a non-finite master; nothing is then written.
Status encode_delta(const ParameterLayout& layout, CodecId codec, RotationKey rotation,
                    std::span<const float> master, std::span<float> published, EncodedUpdate* out);

// A round's end.
struct RoundClose {
  // Chunk by chunk, and each chunk's in worker-id order: chunk_count() times the same workers.
  std::span<const WeightedPayload> payloads;
  uint64_t seed = 0;  // of the payloads' rotations
  float divisor = 1;
  float keep = 1;
};

// sum_payloads(), apply_mean() and encode_delta() in one trip through the model, with their bytes.
//   master     in: as the last close left it; out: as this one does
//   published  what the workers hold
//   next       out: what they hold after this publication; another vector
// Errors: as encode_delta(); `published` is then what it was, the others are not to be used.
Status close_and_publish(const ParameterLayout& layout, const RoundClose& close, CodecId codec,
                         RotationKey rotation, std::span<float> master,
                         std::span<const float> published, std::span<float> next,
                         EncodedUpdate* out);

// A worker's half of a publication: the same bytes give the same published model, bit for bit.
void apply_delta(const ParameterLayout& layout, const PayloadView& delta, uint64_t seed,
                 std::span<float> published);

// values below 2^-90 in magnitude become +0.
void flush_small(std::span<float> values);

}  // namespace paceline
