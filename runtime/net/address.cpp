#include "runtime/net/address.h"

#include <charconv>

namespace paceline {

Result<std::string> server_address(std::string_view text) {
  const auto wrong = [&](const char* what) {
    return fail(Code::kInvalidArgument,
                "address '%.*s': %s; write HOST, HOST:PORT, tcp://HOST:PORT or ipc:///PATH",
                static_cast<int>(std::min(text.size(), size_t{100})), text.data(), what);
  };
  std::string_view rest = text;
  if (rest.starts_with("ipc://")) {
    if (rest.size() == 6) return wrong("the path is missing");
    return std::string(text);
  }
  if (rest.starts_with("tcp://")) rest.remove_prefix(6);
  if (rest.find("://") != std::string_view::npos) return wrong("this scheme is not known");
  const size_t bracket = rest.rfind(']');
  const size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = rest.substr(0, colon);
  if (host.empty() || host.find_first_of(" /?#") != std::string_view::npos)
    return wrong("the host is wrong");
  unsigned port = kDefaultPort;
  if (colon != std::string_view::npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port > 65535)
      return wrong("the port has to be 0 to 65535");
  }
  return format_text("tcp://%.*s:%u", static_cast<int>(host.size()), host.data(), port);
}

}  // namespace paceline
