// The one-time code that takes a board into a fleet: what a person reads from one screen and types
// on another.
//
// 80 bits of a secret, which the server knows by its hash; 80 bits of the hash of the authority's
// key, by which the board knows that it talks to the right server; and a check symbol. 33 symbols
// of Crockford's base 32, in groups of four: "7ZQ4-...". Pure.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

inline constexpr size_t kCodePartBytes = 10;

struct EnrolmentCode {
  std::array<std::byte, kCodePartBytes> secret{};
  std::array<std::byte, kCodePartBytes> authority{};  // the first bytes of its key's hash
  bool operator==(const EnrolmentCode&) const = default;
};

std::string code_text(const EnrolmentCode& code);
// Forgives case, spaces, dashes, and O, I, L for 0, 1, 1. Any one wrong symbol and any two swapped
// neighbours are found. Errors: kInvalidArgument, which does not repeat the code.
Result<EnrolmentCode> parse_code(std::string_view text);

}  // namespace paceline
