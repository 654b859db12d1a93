// gzip files in memory.
#pragma once

#include <cstdint>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

// Whether `bytes` start like a gzip file, whatever its name is.
bool is_gzip(ByteSpan bytes);

// The content of all members of `compressed`, one after another, their checksums verified.
// The length is counted by a first pass, so no header sizes an allocation and none is larger than
// the content; a second pass is cheaper than twice the memory on a small board. Errors: kCorrupt
// for data that is cut off or damaged or has other bytes after its end;
//         kResourceExhausted for content of more than `bytes_max`.
Result<Bytes> gunzip(ByteSpan compressed, uint64_t bytes_max);

}  // namespace paceline
