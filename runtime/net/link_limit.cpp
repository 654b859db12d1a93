#include <charconv>
#include <string_view>

#include "runtime/net/transport.h"

namespace paceline {

namespace {

constexpr double kBitsPerSecondMin = 100;  // slower, and not even a heartbeat comes through in time
constexpr double kBitsPerSecondMax = 1e12;  // beyond any link, and safe to calculate with

struct Unit {
  std::string_view name;
  double bits_per_s;
};
constexpr Unit kUnits[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};

Result<double> parse_rate(std::string_view rate, const std::string& whole) {
  double value = 0;
  const auto [rest, error] = std::from_chars(rate.data(), rate.data() + rate.size(), value);
  if (error == std::errc()) {
    const std::string_view name = rate.substr(static_cast<size_t>(rest - rate.data()));
    for (const Unit& unit : kUnits) {
      if (name != unit.name) continue;
      const double bits_per_s = value * unit.bits_per_s;
      if (bits_per_s >= kBitsPerSecondMin && bits_per_s <= kBitsPerSecondMax) return bits_per_s;
      return fail(Code::kInvalidArgument, "link \"%s\": 100bit to 1000gbit are possible",
                  whole.c_str());
    }
  }
  return fail(Code::kInvalidArgument,
              "link \"%s\" is not a rate; write 100mbit, 64kbit, or 10mbit/1mbit for down/up",
              whole.c_str());
}

}  // namespace

Result<LinkLimit> parse_link(const std::string& text) {
  const std::string_view whole = text;
  const size_t slash = whole.find('/');
  PACELINE_ASSIGN(const double down, parse_rate(whole.substr(0, slash), text));
  if (slash == std::string_view::npos)
    return LinkLimit{.up_bits_per_s = down, .down_bits_per_s = down};
  PACELINE_ASSIGN(const double up, parse_rate(whole.substr(slash + 1), text));
  return LinkLimit{.up_bits_per_s = up, .down_bits_per_s = down};
}

}  // namespace paceline
