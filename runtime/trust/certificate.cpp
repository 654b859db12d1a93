#include "runtime/trust/certificate.h"

#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>
#include <psa/crypto.h>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/trust/mbedtls_objects.h"

namespace paceline {

namespace {

// P-256 keys need some 250 bytes as PEM and 91 as DER.
constexpr size_t kKeyBytesMax = kPublicKeyBytesMax;

const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// With the closing zero that marks PEM for mbedTLS.
size_t pem_bytes(const std::string& pem) { return pem.size() + 1; }
const unsigned char* pem_data(const std::string& pem) {
  return reinterpret_cast<const unsigned char*>(pem.c_str());
}

bool is_p256(const mbedtls_pk_context& key) {
  return mbedtls_pk_can_do(&key, MBEDTLS_PK_ECKEY) != 0 && mbedtls_pk_get_bitlen(&key) == 256;
}

Result<Bytes> public_der(const mbedtls_pk_context& key) {
  unsigned char buffer[kKeyBytesMax];
  const int written = mbedtls_pk_write_pubkey_der(&key, buffer, sizeof buffer);
  if (written <= 0) return crypto_failure(Code::kCorrupt, "a public key", written);
  // It is written to the buffer's end.
  const auto* begin = reinterpret_cast<const std::byte*>(buffer + sizeof buffer - written);
  return Bytes(begin, begin + written);
}

// Of dates in a certificate; years before 1970 can't be there.
int64_t seconds_of(const mbedtls_x509_time& time) {
  const int64_t year = time.mon <= 2 ? time.year - 1 : time.year;
  const int64_t era = year / 400, year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (time.mon + (time.mon > 2 ? -3 : 9)) + 2) / 5 + time.day - 1;
  const int64_t day = era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
                      day_of_year - 719'468;
  return ((day * 24 + time.hour) * 60 + time.min) * 60 + time.sec;
}

std::string common_name(const mbedtls_x509_name& subject) {
  for (const mbedtls_x509_name* part = &subject; part != nullptr; part = part->next)
    if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &part->oid) == 0)
      return std::string(reinterpret_cast<const char*>(part->val.p), part->val.len);
  return {};
}

}  // namespace

tl::unexpected<Status> crypto_failure(Code code, const char* what, int result) {
  char text[128] = "unknown";
  mbedtls_strerror(result, text, sizeof text);
  return fail(code, "%s: %s", what, text);
}

Status start_crypto() {
  static const psa_status_t started = psa_crypto_init();
  if (started == PSA_SUCCESS) return {};
  return fail(Code::kIo, "cryptography does not start (%d): is there no random source?",
              static_cast<int>(started));
}

int draw_random(void*, unsigned char* out, size_t count) {
  return psa_generate_random(out, count) == PSA_SUCCESS ? 0 : MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
}

Status parse_key(const std::string& pem, Key* key) {
  PACELINE_TRY(start_crypto());
  const int result = mbedtls_pk_parse_key(&key->context, pem_data(pem), pem_bytes(pem), nullptr, 0,
                                          draw_random, nullptr);
  if (result != 0) return crypto_failure(Code::kCorrupt, "a private key", result);
  if (!is_p256(key->context)) return fail(Code::kCorrupt, "a private key is not one on P-256");
  return {};
}

Status parse_public_key(ByteSpan der, Key* key) {
  PACELINE_TRY(start_crypto());
  if (der.empty() || der.size() > kKeyBytesMax)
    return fail(Code::kCorrupt, "a public key has %zu bytes, 1 to %zu are possible", der.size(),
                kKeyBytesMax);
  const int result = mbedtls_pk_parse_public_key(&key->context, raw(der), der.size());
  if (result != 0) return crypto_failure(Code::kCorrupt, "a public key", result);
  if (!is_p256(key->context)) return fail(Code::kCorrupt, "a public key is not one on P-256");
  return {};
}

Status parse_certificate(const std::string& pem, Certificate* certificate) {
  PACELINE_TRY(start_crypto());
  const int result = mbedtls_x509_crt_parse(&certificate->context, pem_data(pem), pem_bytes(pem));
  if (result < 0) return crypto_failure(Code::kCorrupt, "a certificate", result);
  if (result > 0 || certificate->context.next != nullptr)
    return fail(Code::kCorrupt, "a certificate is wanted, there are several or broken ones");
  return {};
}

Hash sha256(ByteSpan bytes) {
  Hash hash;
  const int result =
      mbedtls_sha256(raw(bytes), bytes.size(), reinterpret_cast<unsigned char*>(hash.data()), 0);
  PACELINE_CHECK(result == 0);
  return hash;
}

std::string to_hex(ByteSpan bytes) {
  std::string text;
  for (const std::byte value : bytes)
    for (const int shift : {4, 0})
      text += "0123456789abcdef"[std::to_integer<unsigned>(value) >> shift & 15];
  return text;
}

Result<Bytes> random_bytes(size_t count) {
  PACELINE_TRY(start_crypto());
  Bytes bytes(count);
  const int result = draw_random(nullptr, reinterpret_cast<unsigned char*>(bytes.data()), count);
  if (result != 0) return crypto_failure(Code::kIo, "random numbers", result);
  return bytes;
}

bool equal_in_constant_time(ByteSpan a, ByteSpan b) {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

Result<KeyPair> make_key() {
  PACELINE_TRY(start_crypto());
  Key key;
  int result = mbedtls_pk_setup(&key.context, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
  if (result == 0)
    result = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(key.context), draw_random,
                                 nullptr);
  if (result != 0) return crypto_failure(Code::kIo, "making a key", result);
  unsigned char pem[kKeyBytesMax];
  result = mbedtls_pk_write_key_pem(&key.context, pem, sizeof pem);
  if (result != 0) return crypto_failure(Code::kIo, "writing a key", result);
  KeyPair pair;
  pair.private_pem = reinterpret_cast<const char*>(pem);
  PACELINE_ASSIGN(pair.public_der, public_der(key.context));
  return pair;
}

Result<Hash> hash_public_key(ByteSpan der) {
  Key key;
  PACELINE_TRY(parse_public_key(der, &key));
  // Written anew: one key, one hash, however its bytes came.
  PACELINE_ASSIGN(const Bytes written, public_der(key.context));
  return sha256(written);
}

Result<CertificateFacts> read_certificate(const std::string& pem) {
  Certificate certificate;
  PACELINE_TRY(parse_certificate(pem, &certificate));
  const mbedtls_x509_crt& parsed = certificate.context;
  CertificateFacts facts;
  facts.name = common_name(parsed.subject);
  PACELINE_ASSIGN(const Bytes key, public_der(parsed.pk));
  facts.key = sha256(key);
  facts.serial =
      to_hex(ByteSpan(reinterpret_cast<const std::byte*>(parsed.serial.p), parsed.serial.len));
  facts.valid_from_s = seconds_of(parsed.valid_from);
  facts.valid_to_s = seconds_of(parsed.valid_to);
  return facts;
}

Status check_certificate(const std::string& pem, const std::string& authority_pem,
                         const std::string& key_pem) {
  Certificate certificate, authority;
  Key key;
  PACELINE_TRY(parse_certificate(pem, &certificate));
  PACELINE_TRY(parse_certificate(authority_pem, &authority));
  PACELINE_TRY(parse_key(key_pem, &key));
  uint32_t flags = 0;
  mbedtls_x509_crt_verify(&certificate.context, &authority.context, nullptr, nullptr, &flags,
                          nullptr, nullptr);
  constexpr uint32_t kDates = MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE;
  if ((flags & ~kDates) != 0)
    return fail(Code::kRefused, "a certificate is not signed by the fleet's authority (%08x)",
                static_cast<unsigned>(flags));
  if (mbedtls_pk_check_pair(&certificate.context.pk, &key.context, draw_random, nullptr) != 0)
    return fail(Code::kRefused, "a certificate belongs to another key");
  return {};
}

}  // namespace paceline
