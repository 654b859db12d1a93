// Holds the codecs to their targets: what is slower than it has to be is measured again before it
// counts, because other programs and the machine's own mood take their share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/codec_bench.h"

namespace paceline {

struct CodecGate {
  CodecBench bench;                 // one row for each target: the best of its tries
  std::vector<std::string> faults;  // one sentence for each row that stayed too slow
};

using MeasureCodecs = std::function<Result<CodecBench>(const CodecBenchOptions&)>;

// The rows that have targets on the kernel sets of this CPU. No rows: it has no such set.
// Errors: those of `measure`.
Result<CodecGate> run_codec_gate(const MeasureCodecs& measure = run_codec_bench);

// What is wrong with a row, in one sentence; empty if it reaches its target or has none.
std::string codec_fault(const CodecRate& rate);

}  // namespace paceline
