#include "server/gate.h"

#include <algorithm>
#include <ctime>

#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

namespace {

constexpr TimeUs kLookEveryUs = from_ms(250);
constexpr TimeUs kLingerUs = from_ms(1000);
constexpr uint32_t kNewcomersMax = 8;
constexpr uint32_t kNewcomerSilenceMs = 20'000;
constexpr int kRequestsPerTurn = 8;

int64_t wall_clock_s() { return static_cast<int64_t>(std::time(nullptr)); }

}  // namespace

Result<std::unique_ptr<Gate>> Gate::open(const std::string& folder, std::string enrol_address) {
  PACELINE_ASSIGN(FleetFolder opened, FleetFolder::open(folder));
  std::unique_ptr<Gate> gate(new Gate(std::move(opened), std::move(enrol_address)));
  gate->folder_.changed();
  PACELINE_ASSIGN(gate->fleet_, gate->folder_.read());
  return gate;
}

std::vector<Gate::Outcast> Gate::tick(TimeUs now) {
  if (now >= look_at_) {
    look_at_ = now + kLookEveryUs;
    follow_list();
    open_or_close_door(now);
  }
  serve_newcomers(now);
  return std::exchange(outcasts_, {});
}

void Gate::follow_list() {
  if (!folder_.changed()) return;
  Result<FleetList> read = folder_.read();
  if (!read) {
    // Whoever was welcome stays: a slip of a pen is no reason to stop a run.
    log_error("the fleet's list can't be read, the one before holds: %s",
              read.error().message().c_str());
    return;
  }
  for (const ListedWorker& worker : fleet_.workers) {
    if (worker.revoked_at_s != 0) continue;
    if (Status why = read->admit(worker.name, worker.key); !why.ok())
      outcasts_.push_back({worker.name, worker.key, std::move(why)});
  }
  fleet_ = std::move(*read);
}

void Gate::open_or_close_door(TimeUs now) {
  const bool wanted = fleet_.awaits(wall_clock_s());
  if (wanted == (door_ != nullptr)) return;
  if (!wanted) {
    if (now < keep_door_until_) return;
    door_.reset();
    log_info("enrolment is closed");
    return;
  }
  ListenOptions options;
  options.address = enrol_address_;
  options.sessions_max = kNewcomersMax;
  options.silence_timeout_ms = kNewcomerSilenceMs;
  options.tls = folder_.server_tls();
  options.tls->authority.clear();  // who joins has no certificate yet
  Result<std::unique_ptr<Listener>> door = listen_nng(options);
  if (!door) {
    if (const std::optional<std::string> more = door_lines_.pass(monotonic_now_us()))
      log_error("nobody can join: %s%s", door.error().message().c_str(), more->c_str());
    return;
  }
  door_ = std::move(*door);
  enrol_address_ = door_->address();  // a code printed later leads to the same door
  log_info("enrolment is open on %s", door_->address().c_str());
}

void Gate::serve_newcomers(TimeUs now) {
  Request request;
  for (int i = 0; door_ && i < kRequestsPerTurn && door_->receive(&request, 0); ++i) {
    const Result<Envelope> envelope = decode(request.message);
    const Enrol* enrol = envelope ? std::get_if<Enrol>(&envelope->message) : nullptr;
    if (enrol == nullptr) continue;  // dropping the responder drops the request
    keep_door_until_ = now + kLingerUs;
    request.responder->reply(encode({0, answer(*enrol, request.peer_address, now)}));
  }
}

Message Gate::answer(const Enrol& enrol, const std::string& peer_address, TimeUs now) {
  Enrolled enrolled;
  enrolled.authority = folder_.authority().certificate_pem;
  enrolled.port = port_;
  if (enrol.secret.empty()) return enrolled;
  // The key first: a code is not used up by a board that could not have joined.
  const Result<Hash> key = hash_public_key(enrol.public_key);
  if (!key) return refusal_of(key.error());
  const int64_t now_s = wall_clock_s();
  const Status status = folder_.update([&](FleetList* fleet) -> Status {
    PACELINE_ASSIGN(enrolled.name, fleet->use_secret(sha256(enrol.secret), now_s));
    CertificateContent content;
    content.name = enrolled.name;
    content.valid_to_s = valid_to_s(now_s);
    PACELINE_ASSIGN(enrolled.certificate,
                    issue_certificate(content, enrol.public_key, folder_.authority()));
    PACELINE_ASSIGN(const CertificateFacts facts, read_certificate(enrolled.certificate));
    fleet->enlist({.name = enrolled.name,
                   .key = to_hex(*key),
                   .serial = facts.serial,
                   .enrolled_at_s = now_s,
                   .revoked_at_s = 0});
    return {};
  });
  if (!status.ok()) {
    if (const std::optional<std::string> more = door_lines_.pass(now))
      log_warning("%s may not join: %s%s", peer_address.c_str(), status.message().c_str(),
                  more->c_str());
    return refusal_of(status);
  }
  follow_list();  // at once: the board dials as soon as it has its answer
  log_info("%s joins the fleet from %s", enrolled.name.c_str(), peer_address.c_str());
  return enrolled;
}

}  // namespace paceline
