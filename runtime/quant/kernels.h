// The contract of a kernel set: the loops over whole blocks that a CPU's vector unit can speed up.
//
// One set is one file, platforms/<cpu>/quant_<isa>.cpp, and one line in that folder's
// CMakeLists.txt. quant_scalar.cpp is the specification: every set gives its bytes for every input,
// which tests/contract/kernels holds for each set that the CPU has. A kernel file is built with
// flags above the baseline, so it includes only the intrinsics, this header and kernel_math.h, and
// defines one global symbol: its KernelSet.
//
// Shapes: `blocks` counts blocks of kKernelBlock values; scales are 2 bytes a block (bf16,
// little-endian); codes are 256 bytes (Q8), 128 bytes (Q4, Q4R) or 32 bytes (S1, S1R) a block;
// signs are four words a block (rotation.h). No pointer needs an alignment beyond its type's,
// scales and codes none at all. No two areas overlap. Zero blocks are allowed.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace paceline {

// kBlockElements (limits.h), repeated because a kernel file includes nothing else.
#define PACELINE_KERNEL_BLOCK 256
enum : uint32_t { kKernelBlock = PACELINE_KERNEL_BLOCK };

// How far ahead a close asks for what it walks along. A tile of a sum is as long.
enum : uint32_t { kAheadBlocks = 16 };

// What a set needs of the CPU. Clusters that occur together, not single bits.
enum CpuFeature : uint32_t {
  kCpuAvx2 = 1u << 0,  // and FMA
  kCpuNeon = 1u << 1,
  kCpuAvx512 = 1u << 2,  // F, BW, DQ, VL
};

// The features of this machine, as far as sets ask for them. platforms/<cpu>/cpu.cpp, built for the
// baseline so that nothing runs before the check.
uint32_t cpu_features();

// One worker's codes of one block in a sum. `weight` is the worker's weight times the block's scale
// for codecs with scales, the worker's weight alone for the others: at most 16 significant bits, so
// that weight * code is exact.
struct BlockTerm {
  float weight;
  const unsigned char* codes;
  uint32_t code_bytes = 0;  // for codecs whose codes vary in length
};

// Blocks of a model at a round's end. `sum` is what the workers sent; codec.h has the rules.
struct ClosingBlocks {
  const float* sum;
  float divisor;  // > 0
  float keep;
  float* master;           // in: as the last close left it; out: as this one does
  const float* published;  // what the workers hold
  float* next;             // out: what they hold next
  size_t blocks;
};

struct KernelSet {
  const char* name;
  uint32_t cpu_features;  // all must be there

  // Whether every |a[i] + b[i]| is below 2^119; false for NaN and infinity too. `b` may be null.
  bool (*sums_in_range)(const float* a, const float* b, size_t blocks);

  // Encode c = update + residual and leave c - decoded in `residual`; the rules are in
  // docs/wire_format.md. A block with a |c| of 2^119 or more, NaN or infinite gets the
  // scale 0x7FC0 and zero codes and keeps its residual: such a block never leaves the codec.
  // `residual` may be null: then c = update, and what is lost is not kept.
  void (*encode_q8)(const float* update, float* residual, size_t blocks, unsigned char* scales,
                    unsigned char* codes);
  void (*encode_s1)(const float* update, float* residual, size_t blocks, unsigned char* scales,
                    unsigned char* codes);
  void (*encode_s1r)(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                     unsigned char* scales, unsigned char* codes);

  // into = flush(into + decoded). The scales and codes are legal ones.
  void (*add_q8)(const unsigned char* scales, const unsigned char* codes, size_t blocks,
                 float* into);
  void (*add_s1)(const unsigned char* scales, const unsigned char* codes, size_t blocks,
                 float* into);
  void (*add_s1r)(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
                  size_t blocks, float* into);

  // acc += each term's weight * code, in the order given; acc is one block.
  void (*sum_q8)(const BlockTerm* terms, size_t count, float* acc);
  void (*sum_s1)(const BlockTerm* terms, size_t count, float* acc);

  // into += D H(rotated) / 16 for one block. Destroys `rotated`.
  void (*unrotate_add)(float* rotated, const uint64_t* signs, float* into);

  // From here on a set may leave entries out and then gets the scalar ones (dispatch.cpp).

  // difference = a - b; whether every one is below 2^119 in magnitude.
  bool (*subtract)(const float* a, const float* b, size_t blocks, float* difference) = nullptr;

  // What a close does to the master; codec.h has the rule. divisor > 0.
  void (*apply_mean)(const float* sum, float divisor, float keep, size_t blocks,
                     float* master) = nullptr;

  // apply_mean() to the master, difference = master - published, next = published; whether every
  // difference is below 2^119 in magnitude.
  bool (*close)(const ClosingBlocks& blocks, float* difference) = nullptr;

  // As their namesakes above. Two codes a byte, the first one in the lower half.
  void (*encode_q4)(const float* update, float* residual, size_t blocks, unsigned char* scales,
                    unsigned char* codes) = nullptr;
  void (*encode_q4r)(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                     unsigned char* scales, unsigned char* codes) = nullptr;
  void (*add_q4)(const unsigned char* scales, const unsigned char* codes, size_t blocks,
                 float* into) = nullptr;
  void (*add_q4r)(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
                  size_t blocks, float* into) = nullptr;
  void (*sum_q4)(const BlockTerm* terms, size_t count, float* acc) = nullptr;

  // residual = c = flush(update + residual), or c = update if `residual` is null; returns the bits
  // of the largest |c|. A strip is every eighth of 8 * strip values, strip 8 or 32: maxima[8 n + l]
  // gets the bits of the largest |c| of the values l, l + 8, ... of the n-th such stretch.
  uint32_t (*gather_maxima)(const float* update, float* residual, size_t blocks, size_t strip,
                            uint32_t* maxima) = nullptr;

  // Writes the positions, ascending, of all values whose magnitude has at least the bits `least`
  // (> 0), and returns how many there are. `positions` has room for all values and sixteen more,
  // which may be written, too; blocks <= 16.
  size_t (*find_large)(const float* values, size_t blocks, uint32_t least,
                       uint16_t* positions) = nullptr;

  // Nobody's entry stands in for this one: without it a close takes the steps one by one.
  // close(), encode_q8() of the differences and add_q8() to `next`, in one go. False: a difference
  // is out of range, and what was written is of no use.
  bool (*close_q8)(const ClosingBlocks& blocks, unsigned char* scales,
                   unsigned char* codes) = nullptr;
};

}  // namespace paceline
