// As much JSON as a file's header and a line of output need: quoting, and a reader that walks
// through text of unknown origin without building anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace paceline {

// `text` in double quotes; it has to be UTF-8.
std::string json_quoted(std::string_view text);

// Each call skips blanks, then takes one thing or fails with kCorrupt and its place in bytes.
class JsonReader {
 public:
  static constexpr int kDepthMax = 32;

  explicit JsonReader(std::string_view text) : text_(text) {}

  // Takes `mark` if it comes next.
  bool take(char mark);
  Status expect(char mark);
  // Both check that the text is UTF-8; \u0000 is refused, because names end there for others.
  Result<std::string> string();
  // A whole number from 0 to 2^64 - 1, without sign, fraction or exponent.
  Result<uint64_t> whole();
  // Any value, with everything in it.
  Status skip_value() { return skip(0); }
  // The same, as it stands in the text.
  Result<std::string_view> raw_value();
  Status expect_end();

 private:
  void skip_blanks();
  tl::unexpected<Status> wrong(const char* what) const;
  Status escape(std::string* text);
  Result<uint32_t> four_hex();
  Status skip(int depth);

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace paceline
