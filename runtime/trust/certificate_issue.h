// Makes certificates: an authority's own, and those that it signs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trust/certificate.h"

namespace paceline {

// Every board starts in 1970 until it learns the time; the end is far away because a board that is
// out of date can't be told so in person.
inline constexpr int64_t kValidFromS = 0;
inline constexpr int kValidYears = 20;

// 20 years past `now_s`, and past 2026 where a clock says less.
int64_t valid_to_s(int64_t now_s);

struct Signer {
  std::string certificate_pem;
  std::string key_pem;
};

struct CertificateContent {
  enum class Use { kAuthority, kServer, kWorker };
  Use use = Use::kWorker;
  std::string name;
  // A server's: names and IPv4 or IPv6 addresses that it may be reached by.
  std::vector<std::string> host_names;
  std::vector<std::string> host_addresses;
  int64_t valid_from_s = kValidFromS;
  int64_t valid_to_s = 0;
};

// Errors: kInvalidArgument for a name that check_name() refuses or an address that is none,
// kCorrupt for a key or signer that can't be read.
Result<std::string> issue_certificate(const CertificateContent& content, ByteSpan public_der,
                                      const Signer& signer);
// Signed by its own key.
Result<Signer> make_authority(const std::string& name, int64_t valid_to_s);

// Names of workers: letters, digits, '.', '_' and '-', at most kNameBytesMax, so that nobody's name
// can be taken for anything else in a certificate, a file or a log.
Status check_name(std::string_view name);

}  // namespace paceline
