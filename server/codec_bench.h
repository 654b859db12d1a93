// Codec speed on one thread: every codec and every kernel set of this CPU, beside two yardsticks of
// the same process. memcpy of the update's bytes is one; the other is how fast this core reads
// what it does not change, for no loop that has to fetch so many bytes can be faster.
//
// docs/codecs.md explains the operations and has measured figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct CodecBenchOptions {
  std::vector<uint32_t> elements = {1024, 100'352, 1'048'576, 25'165'824};
  std::vector<std::string> codecs;       // none: all
  std::vector<std::string> kernel_sets;  // none: all that this CPU runs
  std::vector<std::string> ops;          // none: all
  uint32_t repeats = 7;                  // the median counts
  double repeat_ms = 10;                 // at least one call
};

struct CodecRate {
  std::string kernel_set;
  std::string codec;
  std::string op;
  uint32_t count = 0;  // elements
  double us = 0;       // one call: the median, and the fastest and slowest repeat
  double us_min = 0;
  double us_max = 0;
  double gb_per_s = 0;  // float32 bytes of the updates that one call handles
  double memcpy_ratio = 0;
  double read_bound_ratio = 0;  // share of the speed that reading allows
};

// Of one kernel set's rows of one size, measured with them.
struct CodecYardstick {
  std::string kernel_set;
  uint32_t count = 0;
  double memcpy_gb_per_s = 0;
  double read_gb_per_s = 0;
};

struct CodecBench {
  std::string cpu;
  std::string compiler;
  uint32_t repeats = 0;
  std::vector<CodecYardstick> yardsticks;
  std::vector<CodecRate> rates;
};

// Times are CPU time, which a busy machine disturbs least. Errors: kInvalidArgument, kNotFound or
// kUnsupported for a codec, kernel set or size that can't be.
Result<CodecBench> run_codec_bench(const CodecBenchOptions& options);

std::string codec_bench_text(const CodecBench& bench);
std::string codec_bench_json(const CodecBench& bench);

}  // namespace paceline
