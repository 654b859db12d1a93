// Any bytes: decode() gives an error, or a message that encode() and decode() bring back unchanged.
#include <cstddef>
#include <cstdint>

#include "runtime/base/check.h"
#include "runtime/wire/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const Result<Envelope> envelope =
      decode(ByteSpan(reinterpret_cast<const std::byte*>(data), size));
  if (!envelope) return 0;
  const Bytes bytes = encode(*envelope);
  const Result<Envelope> again = decode(bytes);
  PACELINE_CHECK(again);
  // Their bytes, not their values: a NaN equals nothing.
  PACELINE_CHECK(encode(*again) == bytes);
  PACELINE_CHECK(again->session == envelope->session);
  PACELINE_CHECK(again->message.index() == envelope->message.index());
  return 0;
}
