#include "runtime/worker/join.h"

#include <algorithm>

#include "runtime/net/address.h"
#include "runtime/net/transport.h"
#include "runtime/trust/certificate.h"
#include "runtime/trust/credentials.h"
#include "runtime/trust/enrolment_code.h"
#include "runtime/wire/messages.h"

namespace paceline {

namespace {

constexpr TimeUs kPatienceUs = from_ms(15'000);

Result<std::string> enrolment_address(const std::string& server) {
  PACELINE_ASSIGN(const std::string address, server_address(server, kEnrolmentPort));
  if (address.starts_with("ipc://"))
    return fail(Code::kInvalidArgument, "address '%s': a fleet is joined over TCP", server.c_str());
  return is_secure_address(address) ? address : "tls+" + address;
}

Result<Enrolled> ask(const std::string& address, TlsOptions tls, Enrol enrol) {
  DialOptions dial;
  dial.address = address;
  dial.tls = std::move(tls);
  PACELINE_ASSIGN(const std::unique_ptr<Channel> channel, dial_nng(dial));
  channel->send(Lane::kExchange, encode({0, std::move(enrol)}), kPatienceUs);
  Reply reply;
  if (!channel->receive(&reply, monotonic_now_us() + 2 * kPatienceUs) || !reply.status.ok())
    return fail(Code::kUnavailable,
                "%s; is the server running, and did edge_server enrol print a code within the "
                "last 15 minutes?",
                channel->state().c_str());
  PACELINE_ASSIGN(const Envelope envelope, decode(reply.message));
  if (const auto* enrolled = std::get_if<Enrolled>(&envelope.message)) return *enrolled;
  if (const auto* refused = std::get_if<Refused>(&envelope.message))
    return fail(Code::kRefused, "the server says: %s; %s", refused->reason.c_str(),
                refused->fix.c_str());
  return fail(Code::kUnsupported, "%s answers with %s; install the same version on both machines",
              address.c_str(), message_name(envelope.message));
}

// Nothing that the server says before is believed: it may be anybody.
Status check_authority(const std::string& authority_pem, const EnrolmentCode& code) {
  PACELINE_ASSIGN(const CertificateFacts authority, read_certificate(authority_pem));
  if (std::ranges::equal(code.authority, ByteSpan(authority.key).first(kCodePartBytes))) return {};
  return fail(Code::kRefused,
              "the server that answers is not the one that the code is of; check the address. If "
              "it is right, somebody stands in between");
}

}  // namespace

Result<std::string> join_fleet(const JoinOptions& options) {
  PACELINE_ASSIGN(const EnrolmentCode code, parse_code(options.code));
  PACELINE_ASSIGN(const std::string address, enrolment_address(options.server));
  PACELINE_ASSIGN(const Enrolled introduced, ask(address, {}, {}));
  PACELINE_TRY(check_authority(introduced.authority, code));

  PACELINE_ASSIGN(KeyPair key, make_key());
  TlsOptions believed;
  believed.authority = introduced.authority;
  believed.server_name = kServerName;
  PACELINE_ASSIGN(
      const Enrolled enrolled,
      ask(address, believed,
          {.secret = Bytes(code.secret.begin(), code.secret.end()), .public_key = key.public_der}));
  PACELINE_TRY(check_certificate(enrolled.certificate, introduced.authority, key.private_pem));
  PACELINE_ASSIGN(const CertificateFacts facts, read_certificate(enrolled.certificate));
  Credentials credentials;
  credentials.name = facts.name;
  credentials.server = address.substr(0, address.rfind(':') + 1) + std::to_string(enrolled.port);
  credentials.server_name = kServerName;
  credentials.key = std::move(key.private_pem);
  credentials.certificate = enrolled.certificate;
  credentials.authority = introduced.authority;
  PACELINE_TRY(save_credentials(options.folder, credentials));
  return credentials.name;
}

}  // namespace paceline
