// Keys and certificates as PEM texts: P-256 only, X.509 only as far as a fleet of its own needs it.
//
// A fleet has one authority; it signs one server certificate and one for each worker. A worker's
// certificate names it (the subject's CN) and its key (the URI "paceline:key:" and the key's hash),
// so that whoever sees the certificate in a handshake can hold both against the fleet's list.
// Private keys are never logged. Safe from several threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

// What a server's certificate names and every worker insists on, wherever it dials: addresses
// change, and no worker's certificate has it.
inline constexpr const char* kServerName = "server.paceline";

using Hash = std::array<std::byte, 32>;  // SHA-256

Hash sha256(ByteSpan bytes);
std::string to_hex(ByteSpan bytes);
// From the system's source, through a generator. Errors: kIo if there is none.
Result<Bytes> random_bytes(size_t count);
// In time that depends on the lengths only.
bool equal_in_constant_time(ByteSpan a, ByteSpan b);

struct KeyPair {
  std::string private_pem;
  Bytes public_der;  // SubjectPublicKeyInfo
};
Result<KeyPair> make_key();

// What a certificate says.
struct CertificateFacts {
  std::string name;          // CN
  Hash key{};                // of its public key, as hash_public_key() gives it
  std::string serial;        // hex digits
  int64_t valid_from_s = 0;  // since 1970
  int64_t valid_to_s = 0;
};
// Errors: kCorrupt if it is not one certificate in PEM.
Result<CertificateFacts> read_certificate(const std::string& pem);

// Errors: kCorrupt, kRefused with the reason: `pem` is not signed by `authority`, or `key` is not
// its key. The dates are not looked at: a board may not know what day it is.
Status check_certificate(const std::string& pem, const std::string& authority_pem,
                         const std::string& key_pem);

// Of a key in SubjectPublicKeyInfo. Errors: kCorrupt if it is not a key on P-256: it comes from the
// network.
Result<Hash> hash_public_key(ByteSpan public_der);

}  // namespace paceline
