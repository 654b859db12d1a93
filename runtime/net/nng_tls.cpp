#include "runtime/net/nng_tls.h"

#include <mbedtls/debug.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "runtime/base/limits.h"

namespace paceline {

namespace {

// The level at which mbedTLS names flags and alerts. It names secrets at this level too, in old
// versions of the protocol: nng_library.cpp keeps two kinds of lines and drops the rest unseen.
constexpr int kTraceLevel = 3;

struct FreeConfig {
  void operator()(nng_tls_config* config) const { nng_tls_config_free(config); }
};
using Config = std::unique_ptr<nng_tls_config, FreeConfig>;

// A configuration is frozen by its first use: each dialer and listener has its own.
int make_config(nng_tls_mode mode, const TlsOptions& tls, Config* made) {
  static std::once_flag once;
  std::call_once(once, [] { trace_handshakes(true); });
  nng_tls_config* config = nullptr;
  int error = nng_tls_config_alloc(&config, mode);
  if (error != 0) return error;
  made->reset(config);
  if ((error = nng_tls_config_version(config, NNG_TLS_1_3, NNG_TLS_1_3)) != 0) return error;
  const bool believes_all = tls.authority.empty();
  if ((error = nng_tls_config_auth_mode(
           config, believes_all ? NNG_TLS_AUTH_MODE_NONE : NNG_TLS_AUTH_MODE_REQUIRED)) != 0)
    return error;
  if (!believes_all &&
      (error = nng_tls_config_ca_chain(config, tls.authority.c_str(), nullptr)) != 0)
    return error;
  if (!tls.certificate.empty() && (error = nng_tls_config_own_cert(config, tls.certificate.c_str(),
                                                                   tls.key.c_str(), nullptr)) != 0)
    return error;
  // Without a name any certificate of the authority would do, a worker's too.
  if (mode == NNG_TLS_MODE_CLIENT && !tls.server_name.empty())
    error = nng_tls_config_server_name(config, tls.server_name.c_str());
  return error;
}

std::string alert_text(unsigned alert) {
  switch (alert) {
    case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
      return "the other side does not take our certificate: it expects another name";
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
      return "the other side says that our certificate has expired";
    case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
      return "the other side says that our certificate is revoked";
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
      return "the other side does not know who signed our certificate: it belongs to another fleet";
    case MBEDTLS_SSL_ALERT_MSG_CERT_REQUIRED:
      return "the other side wants a certificate and we have none: join the fleet first";
    default:
      return format_text("the other side broke off the handshake (alert %u)", alert);
  }
}

std::string flags_text(unsigned flags) {
  std::string text;
  const auto add = [&](unsigned flag, const char* words) {
    if ((flags & flag) != 0) text += (text.empty() ? "" : ", ") + std::string(words);
    flags &= ~flag;
  };
  add(MBEDTLS_X509_BADCERT_EXPIRED, "has expired");
  add(MBEDTLS_X509_BADCERT_FUTURE, "is not valid yet (check this machine's clock)");
  add(MBEDTLS_X509_BADCERT_CN_MISMATCH, "names another server");
  add(MBEDTLS_X509_BADCERT_NOT_TRUSTED, "is not signed by this fleet's authority");
  add(MBEDTLS_X509_BADCERT_MISSING, "is missing");
  if (flags != 0) text += format_text("%sis wrong (%08x)", text.empty() ? "" : ", ", flags);
  return "the other side's certificate " + text;
}

// The number behind `words`, if they are in the line.
bool number_after(std::string_view line, std::string_view words, int base, unsigned* number) {
  const size_t found = line.find(words);
  if (found == std::string_view::npos) return false;
  const std::string_view digits = line.substr(found + words.size());
  return std::from_chars(digits.data(), digits.data() + digits.size(), *number, base).ec ==
         std::errc();
}

}  // namespace

void trace_handshakes(bool wanted) { mbedtls_debug_set_threshold(wanted ? kTraceLevel : 0); }

int secure_dialer(const nng_dialer_s& dialer, const TlsOptions& tls) {
  Config config;
  const int error = make_config(NNG_TLS_MODE_CLIENT, tls, &config);
  return error != 0 ? error : nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, config.get());
}

int secure_listener(const nng_listener_s& listener, const TlsOptions& tls) {
  Config config;
  const int error = make_config(NNG_TLS_MODE_SERVER, tls, &config);
  return error != 0 ? error : nng_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, config.get());
}

TlsPeer tls_peer(const nng_pipe_s& pipe) {
  constexpr std::string_view kKeyPrefix = "paceline:key:";
  TlsPeer peer;
  bool verified = false;
  char* name = nullptr;
  if (nng_pipe_get_bool(pipe, NNG_OPT_TLS_VERIFIED, &verified) != 0 || !verified ||
      nng_pipe_get_string(pipe, NNG_OPT_TLS_PEER_CN, &name) != 0 || name == nullptr)
    return {};
  peer.name = name;
  nng_strfree(name);
  void* names = nullptr;
  if (nng_pipe_get_ptr(pipe, NNG_OPT_TLS_PEER_ALT_NAMES, &names) != 0 || names == nullptr)
    return {};
  auto** list = static_cast<char**>(names);
  for (char** entry = list; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with(kKeyPrefix)) peer.key = text.substr(kKeyPrefix.size());
    std::free(*entry);
  }
  std::free(list);
  if (peer.key.empty() || peer.name.size() > kNameBytesMax) return {};
  return peer;
}

bool is_over(const nng_pipe_s& pipe) {
  nng_sockaddr remote;
  // NNG asks the system, which knows nobody at the other end of a socket that has ended.
  const int error = nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &remote);
  return error != 0 && error != NNG_ENOENT;
}

std::string tls_trace_reason(std::string_view line) {
  unsigned number = 0;
  // Should the connection end now, it is because of us; the alert that says why may get lost with
  // it.
  if (line.find("Certificate verification flags clear") != std::string_view::npos)
    return "the other side does not take our certificate, or we have none: join the fleet again";
  if (number_after(line, "! Certificate verification flags ", 16, &number))
    return flags_text(number);
  if (number_after(line, "is a fatal alert message (msg ", 10, &number)) return alert_text(number);
  // mbedTLS's client sends its alert unencrypted where the server expects it otherwise.
  if (line.find("Verification of the message MAC failed") != std::string_view::npos)
    return "the other side broke off: it does not take our certificate";
  if (line.find("client has no certificate") != std::string_view::npos ||
      line.find("peer has no certificate") != std::string_view::npos)
    return "the other side has no certificate";
  return {};
}

}  // namespace paceline
