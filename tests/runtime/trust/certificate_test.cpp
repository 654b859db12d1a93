#include "runtime/trust/certificate.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "runtime/trust/certificate_issue.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr int64_t kNowS = 1'796'000'000;  // 2026

Bytes text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters));
  return Bytes(bytes.begin(), bytes.end());
}

struct Fleet {
  Signer authority = *make_authority("authority", valid_to_s(kNowS));
  KeyPair key = *make_key();

  Result<std::string> issue(const std::string& name, int64_t to_s = valid_to_s(kNowS)) const {
    CertificateContent content;
    content.name = name;
    content.valid_to_s = to_s;
    return issue_certificate(content, key.public_der, authority);
  }
};

TEST_SUITE_BEGIN("trust/certificate");

TEST_CASE("SHA-256 and hex agree with FIPS 180-2's example") {
  CHECK(to_hex(sha256(text("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a certificate says what was put into it, from 1970 to twenty years from now") {
  const Fleet fleet;
  const Result<std::string> pem = fleet.issue("greenhouse-2.b_C");
  REQUIRE(pem);
  const Result<CertificateFacts> facts = read_certificate(*pem);
  REQUIRE(facts);
  CHECK(facts->name == "greenhouse-2.b_C");
  CHECK(facts->key == *hash_public_key(fleet.key.public_der));
  CHECK(facts->serial.size() == 32);
  CHECK(facts->valid_from_s == 0);
  CHECK(facts->valid_to_s == valid_to_s(kNowS));
  CHECK(check_certificate(*pem, fleet.authority.certificate_pem, fleet.key.private_pem).ok());
  CHECK(read_certificate(*fleet.issue("a"))->serial != facts->serial);
}

TEST_CASE("dates come back as they went in, over leap years and the year 2050") {
  const Fleet fleet;
  Random random(seed(), 3);
  for (int i = 0; i < 40; ++i) {
    const auto to_s = static_cast<int64_t>(random.below(4'102'444'800));  // to 2100
    CHECK(read_certificate(*fleet.issue("a", to_s))->valid_to_s == to_s);
  }
}

TEST_CASE("a server whose clock says 1970 still gives twenty years that have not passed") {
  CHECK(valid_to_s(0) > 2'300'000'000);
  CHECK(valid_to_s(kNowS) - kNowS > 20ll * 365 * 86'400);
}

TEST_CASE("a certificate of another authority, or of another key, is found out") {
  const Fleet fleet, other;
  const std::string pem = *fleet.issue("a");
  CHECK(check_certificate(pem, other.authority.certificate_pem, fleet.key.private_pem).code() ==
        Code::kRefused);
  CHECK(check_certificate(pem, fleet.authority.certificate_pem, other.key.private_pem).code() ==
        Code::kRefused);
  // A worker's certificate signs nothing.
  const Signer worker{.certificate_pem = pem, .key_pem = fleet.key.private_pem};
  CertificateContent content;
  content.name = "b";
  content.valid_to_s = kNowS;
  const std::string below = *issue_certificate(content, other.key.public_der, worker);
  CHECK_FALSE(check_certificate(below, pem, other.key.private_pem).ok());
  CHECK_FALSE(
      check_certificate(below, fleet.authority.certificate_pem, other.key.private_pem).ok());
}

TEST_CASE("names that could be taken for anything else are refused") {
  for (const char* name : {"", "a b", "a,CN=b", "a\"b", "a\nb", "a/b", "\xC3\xA4", "a=b", "a;b"}) {
    CAPTURE(name);
    CHECK(check_name(name).code() == Code::kInvalidArgument);
    CHECK_FALSE(Fleet().issue(name));
  }
  CHECK(check_name(std::string(64, 'a')).ok());
  CHECK_FALSE(check_name(std::string(65, 'a')).ok());
}

TEST_CASE("whatever is done to a public key, it is a key on P-256 or an error") {
  const KeyPair key = *make_key();
  Random random(seed(), 4);
  for (int i = 0; i < 300; ++i) {
    Bytes damaged = key.public_der;
    if (i % 3 == 0) damaged.resize(static_cast<size_t>(random.below(damaged.size())));
    if (!damaged.empty())
      damaged[static_cast<size_t>(random.below(damaged.size()))] ^=
          std::byte(1u << random.below(8));
    const Result<Hash> hash = hash_public_key(damaged);
    if (!hash) CHECK(hash.error().code() == Code::kCorrupt);
  }
  CHECK_FALSE(hash_public_key(Bytes(5000)));
  CHECK_FALSE(hash_public_key({}));
}

TEST_CASE("what is not one certificate in PEM is kCorrupt") {
  const std::string pem = *Fleet().issue("a");
  for (const std::string& broken :
       {std::string(), std::string("hello"), pem.substr(0, pem.size() / 2), pem + pem})
    CHECK(read_certificate(broken).error().code() == Code::kCorrupt);
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
