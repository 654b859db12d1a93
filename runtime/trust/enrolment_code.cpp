#include "runtime/trust/enrolment_code.h"

#include <algorithm>

namespace paceline {

namespace {

constexpr std::string_view kSymbols = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
constexpr size_t kDataSymbols = 2 * kCodePartBytes * 8 / 5;
constexpr size_t kGroup = 4;

// A polynomial over GF(32), 0 with the check symbol at the end: each place has another weight, so
// that a changed symbol and two swapped neighbours always show.
unsigned extend_check(unsigned check, unsigned symbol) {
  const unsigned shifted = check << 1;
  return ((shifted & 32) != 0 ? shifted ^ 0x25 : shifted) ^ symbol;
}

// -1: no symbol.
int symbol_value(char c) {
  if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (c == 'O') c = '0';
  if (c == 'I' || c == 'L') c = '1';
  const size_t found = kSymbols.find(c);
  return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

}  // namespace

std::string code_text(const EnrolmentCode& code) {
  std::array<std::byte, 2 * kCodePartBytes> bytes;
  std::ranges::copy(code.secret, bytes.begin());
  std::ranges::copy(code.authority, bytes.begin() + kCodePartBytes);
  std::string text;
  unsigned check = 0;
  const auto put = [&](unsigned symbol, size_t index) {
    if (index > 0 && index % kGroup == 0 && index < kDataSymbols) text += '-';
    text += kSymbols[symbol];
    check = extend_check(check, symbol);
  };
  for (size_t i = 0; i < kDataSymbols; ++i) {
    unsigned symbol = 0;
    for (size_t bit = i * 5; bit < i * 5 + 5; ++bit)
      symbol = symbol << 1 | (std::to_integer<unsigned>(bytes[bit / 8]) >> (7 - bit % 8) & 1);
    put(symbol, i);
  }
  put(extend_check(check, 0), kDataSymbols);
  return text;
}

Result<EnrolmentCode> parse_code(std::string_view text) {
  std::array<std::byte, 2 * kCodePartBytes> bytes{};
  unsigned check = 0;
  size_t count = 0;
  for (const char c : text) {
    if (c == '-' || c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    const int value = symbol_value(c);
    if (value < 0)
      return fail(Code::kInvalidArgument,
                  "the code has a character that no code has; read it again");
    const auto symbol = static_cast<unsigned>(value);
    if (count == kDataSymbols && symbol != extend_check(check, 0))
      return fail(Code::kInvalidArgument,
                  "the code has a wrong or a swapped symbol; read it again");
    for (size_t bit = count * 5; count < kDataSymbols && bit < count * 5 + 5; ++bit)
      if ((symbol >> (4 - bit % 5) & 1) != 0) bytes[bit / 8] |= std::byte(0x80u >> (bit % 8));
    check = extend_check(check, symbol);
    if (++count > kDataSymbols + 1) break;
  }
  if (count != kDataSymbols + 1)
    return fail(Code::kInvalidArgument, "a code has %zu symbols, this has %s", kDataSymbols + 1,
                count > kDataSymbols ? "more" : std::to_string(count).c_str());
  EnrolmentCode code;
  std::copy_n(bytes.begin(), kCodePartBytes, code.secret.begin());
  std::copy_n(bytes.begin() + kCodePartBytes, kCodePartBytes, code.authority.begin());
  return code;
}

}  // namespace paceline
