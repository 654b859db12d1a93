#include "runtime/quant/block_coder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

namespace {

constexpr bool ids_are_unique() {
  for (size_t i = 0; i < kCodecIds.size(); ++i)
    for (size_t j = i + 1; j < kCodecIds.size(); ++j)
      if (kCodecIds[i] == kCodecIds[j]) return false;
  return true;
}
static_assert(ids_are_unique(), "two lines of codecs.inc have the same wire id");

constexpr std::array kCoders = {
#define CODEC(id, enumerator, name) &block_coder_##name,
#include "runtime/quant/codecs.inc"
#undef CODEC
};

std::array<CodecInfo, kCodecCount> make_infos() {
  std::array<CodecInfo, kCodecCount> infos;
  for (size_t i = 0; i < kCodecCount; ++i) infos[i] = kCoders[i]->info;
  return infos;
}

}  // namespace

std::span<const CodecInfo> codecs() {
  static const std::array<CodecInfo, kCodecCount> infos = make_infos();
  return infos;
}

const CodecInfo& codec_info(CodecId id) { return block_coder(id).info; }

const BlockCoder& block_coder(CodecId id) { return *kCoders[codec_position(id)]; }

const BlockCoder& block_coder(CodecId id, bool wide) {
  const BlockCoder& coder = block_coder(id);
  return wide || coder.takes_narrow ? coder : block_coder_q8;
}

Result<CodecId> codec_by_name(std::string_view name) {
  std::string names;
  for (const CodecInfo& info : codecs()) {
    if (name == info.name) return info.id;
    names += names.empty() ? "" : ", ";
    names += info.name;
  }
  return fail(Code::kInvalidArgument, "no codec '%.*s'; there are %s",
              static_cast<int>(name.size()), name.data(), names.c_str());
}

Status check_codec_down(CodecId id) {
  const CodecInfo& info = codec_info(id);
  if (info.refused_down == nullptr) return {};
  return fail(Code::kInvalidArgument, "codec %s can't go down: %s", info.name, info.refused_down);
}

Result<CodecId> codec_by_wire_id(uint8_t id) {
  if (kCodecPositions[id] == kCodecCount)
    return fail(Code::kCorrupt, "codec id %u is not known here; is the other end newer?", id);
  return static_cast<CodecId>(id);
}

EntryRange entry_range(const unsigned char* ranges, size_t group) {
  uint16_t bounds[2];
  std::memcpy(bounds, ranges + group * sizeof bounds[0], sizeof bounds);
  return {bounds[0], bounds[1]};
}

bool scale_is_legal(uint32_t scale, float max) {
  return scale == 0 || (scale >= kFlushBits >> 16 && scale <= bits_of(max) >> 16);
}

Status illegal_scale(size_t block, uint32_t scale) {
  return fail(Code::kCorrupt, "block %zu: scale 0x%04x is not one that a codec writes", block,
              scale);
}

Status verify_scales(const CodedBlocks& blocks, const CodedBytes& in, size_t code_bytes,
                     float max) {
  for (size_t block = 0; block < blocks.block_count; ++block) {
    const uint32_t scale = load_bf16(in.scales, block);
    if (!scale_is_legal(scale, max)) return illegal_scale(blocks.first_block + block, scale);
    if (scale != 0) continue;
    const unsigned char* codes = in.codes + block * code_bytes;
    if (std::any_of(codes, codes + code_bytes, [](unsigned char code) { return code != 0; }))
      return fail(Code::kCorrupt, "block %zu: scale 0 with codes other than 0",
                  blocks.first_block + block);
  }
  return {};
}

}  // namespace paceline
