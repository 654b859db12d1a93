// Certificates on NNG's dialers and listeners, and who is on the other end of a connection.
#pragma once

#include <string>
#include <string_view>

#include "runtime/net/transport.h"

struct nng_dialer_s;
struct nng_listener_s;
struct nng_pipe_s;

namespace paceline {

// Between create and start. Both give NNG's error, 0 if there is none.
int secure_dialer(const nng_dialer_s& dialer, const TlsOptions& tls);
int secure_listener(const nng_listener_s& listener, const TlsOptions& tls);

// Whether mbedTLS tells why a handshake fails; it does so from the first configuration on. For a
// process that has no listener: it costs a connection some 15 % of TLS's time.
void trace_handshakes(bool wanted);

struct TlsPeer {
  std::string name;
  std::string key;
};
// Of the certificate that the authority vouched for in the handshake. Empty: the connection is gone
// or the certificate is not a worker's.
TlsPeer tls_peer(const nng_pipe_s& pipe);

// Whether the connection's socket has ended while NNG still shows the connection.
//
// NNG 1.10.1 tells an end under TLS to the operations that wait at that moment. If there is none,
// because the last bytes came together with the end and are being worked on, nobody ever hears of
// it: what is received afterwards never comes, and what is sent goes nowhere.
bool is_over(const nng_pipe_s& pipe);

// What a line of mbedTLS's trace, or of its errors, tells people about a handshake that fails;
// empty for the others.
std::string tls_trace_reason(std::string_view line);

}  // namespace paceline
