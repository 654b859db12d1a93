// A fleet's certificates, made for one test.
#pragma once

#include <string>

#include "runtime/base/check.h"
#include "runtime/net/transport.h"
#include "runtime/trust/certificate.h"
#include "runtime/trust/certificate_issue.h"

namespace paceline::test {

inline constexpr int64_t kFarAwayS = 2'500'000'000;  // 2049

class TlsFleet {
 public:
  TlsFleet() : TlsFleet(*make_authority("test.authority", kFarAwayS)) {}
  explicit TlsFleet(Signer authority) : authority_(std::move(authority)) {}

  const Signer& authority() const { return authority_; }

  TlsOptions server(const std::string& name = kServerName) const {
    CertificateContent content{.use = CertificateContent::Use::kServer,
                               .name = "server",
                               .host_names = {name},
                               .host_addresses = {"127.0.0.1"},
                               .valid_to_s = kFarAwayS};
    return issued(content, "");
  }
  TlsOptions worker(const std::string& name) const { return worker(name, 0, kFarAwayS); }
  TlsOptions worker(const std::string& name, int64_t from_s, int64_t to_s) const {
    CertificateContent content;
    content.name = name;
    content.valid_from_s = from_s;
    content.valid_to_s = to_s;
    return issued(content, kServerName);
  }

 private:
  TlsOptions issued(const CertificateContent& content, const std::string& server_name) const {
    const KeyPair key = *make_key();
    const Result<std::string> pem = issue_certificate(content, key.public_der, authority_);
    PACELINE_CHECK(pem);
    return {.certificate = *pem,
            .key = key.private_pem,
            .authority = authority_.certificate_pem,
            .server_name = server_name};
  }

  Signer authority_;
};

}  // namespace paceline::test
