#include "runtime/trust/certificate_issue.h"

#include <arpa/inet.h>
#include <mbedtls/oid.h>

#include <algorithm>
#include <deque>

#include "runtime/base/limits.h"
#include "runtime/trust/mbedtls_objects.h"

namespace paceline {

namespace {

constexpr size_t kSerialBytes = 16;

// "20460101120000"
std::string date_text(int64_t seconds) {
  const int64_t day = seconds / 86'400, second = seconds % 86'400;
  const int64_t shifted = day + 719'468, era = shifted / 146'097, of_era = shifted % 146'097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t from_march = (5 * of_year + 2) / 153;
  const int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
  return format_text(
      "%04d%02d%02d%02d%02d%02d", static_cast<int>(year_of_era + era * 400 + (month <= 2 ? 1 : 0)),
      static_cast<int>(month), static_cast<int>(of_year - (153 * from_march + 2) / 5 + 1),
      static_cast<int>(second / 3600), static_cast<int>(second / 60 % 60),
      static_cast<int>(second % 60));
}

struct Writer {
  Writer() { mbedtls_x509write_crt_init(&context); }
  ~Writer() { mbedtls_x509write_crt_free(&context); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  mbedtls_x509write_cert context;
};

// Names that a certificate is for. The list points into its own texts.
class AlternativeNames {
 public:
  void add(int kind, std::string text) {
    texts_.push_back(std::move(text));
    mbedtls_x509_san_list& entry = list_.emplace_back();
    entry = {};
    entry.node.type = kind;
    entry.node.san.unstructured_name.p = reinterpret_cast<unsigned char*>(texts_.back().data());
    entry.node.san.unstructured_name.len = texts_.back().size();
    if (list_.size() > 1) list_[list_.size() - 2].next = &entry;
  }
  const mbedtls_x509_san_list* first() const { return list_.empty() ? nullptr : &list_.front(); }

 private:
  std::deque<std::string> texts_;
  std::deque<mbedtls_x509_san_list> list_;
};

Status fill_names(const CertificateContent& content, const std::string& key_hash,
                  AlternativeNames* names) {
  if (content.use == CertificateContent::Use::kWorker)
    names->add(MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER, "paceline:key:" + key_hash);
  for (const std::string& name : content.host_names) names->add(MBEDTLS_X509_SAN_DNS_NAME, name);
  for (const std::string& address : content.host_addresses) {
    char bytes[16];
    const size_t count = inet_pton(AF_INET, address.c_str(), bytes) == 1    ? 4
                         : inet_pton(AF_INET6, address.c_str(), bytes) == 1 ? 16
                                                                            : 0;
    if (count == 0)
      return fail(Code::kInvalidArgument, "'%s' is no IPv4 or IPv6 address", address.c_str());
    names->add(MBEDTLS_X509_SAN_IP_ADDRESS, std::string(bytes, count));
  }
  return {};
}

int set_use(mbedtls_x509write_cert* writer, CertificateContent::Use use) {
  const bool authority = use == CertificateContent::Use::kAuthority;
  int result = mbedtls_x509write_crt_set_basic_constraints(writer, authority, authority ? 0 : -1);
  if (result != 0) return result;
  result = mbedtls_x509write_crt_set_key_usage(
      writer, authority ? MBEDTLS_X509_KU_KEY_CERT_SIGN : MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
  if (result != 0 || authority) return result;
  mbedtls_asn1_sequence purpose = {};
  static constexpr char kServer[] = MBEDTLS_OID_SERVER_AUTH, kClient[] = MBEDTLS_OID_CLIENT_AUTH;
  const char* oid = use == CertificateContent::Use::kServer ? kServer : kClient;
  purpose.buf.tag = MBEDTLS_ASN1_OID;
  purpose.buf.p = reinterpret_cast<unsigned char*>(const_cast<char*>(oid));
  purpose.buf.len = sizeof kServer - 1;
  static_assert(sizeof kServer == sizeof kClient);
  return mbedtls_x509write_crt_set_ext_key_usage(writer, &purpose);
}

Result<std::string> issue(const CertificateContent& content, ByteSpan public_der,
                          const std::string& issuer, const std::string& issuer_key_pem) {
  PACELINE_TRY(check_name(content.name));
  Key subject, issuer_key;
  PACELINE_TRY(parse_public_key(public_der, &subject));
  PACELINE_TRY(parse_key(issuer_key_pem, &issuer_key));
  PACELINE_ASSIGN(const Hash key_hash, hash_public_key(public_der));
  AlternativeNames names;
  PACELINE_TRY(fill_names(content, to_hex(key_hash), &names));
  PACELINE_ASSIGN(Bytes serial, random_bytes(kSerialBytes));
  serial[0] = (serial[0] & std::byte{0x7F}) | std::byte{1};  // positive, and of full length
  Writer writer;
  mbedtls_x509write_cert* w = &writer.context;
  mbedtls_x509write_crt_set_version(w, MBEDTLS_X509_CRT_VERSION_3);
  mbedtls_x509write_crt_set_md_alg(w, MBEDTLS_MD_SHA256);
  mbedtls_x509write_crt_set_subject_key(w, &subject.context);
  mbedtls_x509write_crt_set_issuer_key(w, &issuer_key.context);
  const std::string from = date_text(content.valid_from_s), to = date_text(content.valid_to_s);
  int result = mbedtls_x509write_crt_set_serial_raw(
      w, reinterpret_cast<unsigned char*>(serial.data()), serial.size());
  if (result == 0)
    result = mbedtls_x509write_crt_set_subject_name(w, ("CN=" + content.name).c_str());
  if (result == 0) result = mbedtls_x509write_crt_set_issuer_name(w, ("CN=" + issuer).c_str());
  if (result == 0) result = mbedtls_x509write_crt_set_validity(w, from.c_str(), to.c_str());
  if (result == 0) result = set_use(w, content.use);
  if (result == 0 && names.first() != nullptr)
    result = mbedtls_x509write_crt_set_subject_alternative_name(w, names.first());
  std::vector<unsigned char> pem(kCertificateBytesMax);
  if (result == 0)
    result = mbedtls_x509write_crt_pem(w, pem.data(), pem.size(), draw_random, nullptr);
  if (result != 0) return crypto_failure(Code::kInvalidArgument, "making a certificate", result);
  return std::string(reinterpret_cast<const char*>(pem.data()));
}

}  // namespace

int64_t valid_to_s(int64_t now_s) {
  constexpr int64_t kYear2026S = 1'767'225'600;
  constexpr int64_t kYearS = 31'556'952;
  return std::max(now_s, kYear2026S) + kValidYears * kYearS;
}

Status check_name(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= kNameBytesMax;
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (fits && plain) return {};
  return fail(Code::kInvalidArgument,
              "the name '%.*s' can't be: 1 to %zu letters, digits, '.', '_' or '-'",
              static_cast<int>(std::min(name.size(), kNameBytesMax)), plain ? name.data() : "?",
              kNameBytesMax);
}

Result<std::string> issue_certificate(const CertificateContent& content, ByteSpan public_der,
                                      const Signer& signer) {
  PACELINE_ASSIGN(const CertificateFacts issuer, read_certificate(signer.certificate_pem));
  return issue(content, public_der, issuer.name, signer.key_pem);
}

Result<Signer> make_authority(const std::string& name, int64_t valid_to_s) {
  PACELINE_ASSIGN(KeyPair key, make_key());
  CertificateContent content;
  content.use = CertificateContent::Use::kAuthority;
  content.name = name;
  content.valid_to_s = valid_to_s;
  PACELINE_ASSIGN(std::string pem, issue(content, key.public_der, name, key.private_pem));
  return Signer{.certificate_pem = std::move(pem), .key_pem = std::move(key.private_pem)};
}

}  // namespace paceline
