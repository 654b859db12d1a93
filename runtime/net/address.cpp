#include "runtime/net/address.h"

#include <charconv>

namespace paceline {

namespace {

constexpr std::string_view kTls = "tls+";

}  // namespace

Result<std::string> server_address(std::string_view text, unsigned default_port) {
  const auto wrong = [&](const char* what) {
    return fail(
        Code::kInvalidArgument,
        "address '%.*s': %s; write HOST, HOST:PORT, tls+tcp://HOST:PORT, tcp://HOST:PORT or "
        "ipc:///PATH",
        static_cast<int>(std::min(text.size(), size_t{100})), text.data(), what);
  };
  std::string_view rest = text;
  if (rest.starts_with("ipc://")) {
    if (rest.size() == 6) return wrong("the path is missing");
    return std::string(text);
  }
  const bool secure = is_secure_address(rest);
  if (secure) rest.remove_prefix(kTls.size());
  if (rest.starts_with("tcp://")) rest.remove_prefix(6);
  if (rest.find("://") != std::string_view::npos) return wrong("this scheme is not known");
  const size_t bracket = rest.rfind(']');
  const size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = rest.substr(0, colon);
  if (host.empty() || host.find_first_of(" /?#") != std::string_view::npos)
    return wrong("the host is wrong");
  unsigned port = default_port;
  if (colon != std::string_view::npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port > 65535)
      return wrong("the port has to be 0 to 65535");
  }
  return format_text("%stcp://%.*s:%u", secure ? "tls+" : "", static_cast<int>(host.size()),
                     host.data(), port);
}

bool is_secure_address(std::string_view address) { return address.starts_with("tls+tcp://"); }

bool is_local_address(std::string_view address) {
  if (address.starts_with("ipc://")) return true;
  const std::string host = host_of(address);
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

std::string secure_unless_local(const std::string& address) {
  return is_secure_address(address) || is_local_address(address) ? address
                                                                 : std::string(kTls) + address;
}

std::string host_of(std::string_view address) {
  const size_t scheme = address.find("://");
  if (scheme != std::string_view::npos) address.remove_prefix(scheme + 3);
  address = address.substr(0, address.rfind(':'));
  if (address.starts_with('[') && address.ends_with(']'))
    address = address.substr(1, address.size() - 2);
  return std::string(address);
}

unsigned port_of(std::string_view address) {
  unsigned port = 0;
  const std::string_view digits = address.substr(address.rfind(':') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return port;
}

}  // namespace paceline
