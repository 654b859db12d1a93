// The bytes of a data file, unpacked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

// Content of `path`; gzip is recognised by its first bytes and unpacked. Neither the file nor its
// content may be larger than `bytes_max`. Errors name the file; an empty file is kCorrupt.
Result<Bytes> load_file(const std::string& path, uint64_t bytes_max);

std::string_view text_of(ByteSpan content);

// The same error with "FILE: " before its message.
tl::unexpected<Status> fail_in_file(const std::string& path, const Status& error);

// `text` in quotes for a message: at most 40 bytes of it, control characters as '?'.
std::string quote_for_message(std::string_view text);

}  // namespace paceline
