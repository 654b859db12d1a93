#include "server/command_fleet.h"

#include <algorithm>
#include <ctime>

#include "runtime/trust/enrolment_code.h"
#include "server/fleet_folder.h"

namespace paceline {

namespace {

int64_t wall_clock_s() { return static_cast<int64_t>(std::time(nullptr)); }

// "2026-11-30 01:12" in UTC.
std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "?";
  if (::gmtime_r(&time, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

// How other machines may reach this one.
std::string host_text() {
  const ServerHost host = this_host();
  return host.addresses.empty() ? "HOST" : host.addresses.front();
}

}  // namespace

Result<std::string> init_fleet(const std::string& folder) {
  const ServerHost host = this_host();
  PACELINE_TRY(FleetFolder::make(folder, host, wall_clock_s()));
  return format_text(
      "%s is made: authority and server certificate until %s, and an empty list of workers.\n"
      "Keep it to yourself and keep a copy of it: who has its keys is this fleet.\n"
      "Next: edge_server serve RUN.toml, and for each board: edge_server enrol NAME\n",
      folder.c_str(), time_text(valid_to_s(wall_clock_s())).substr(0, 10).c_str());
}

Result<std::string> enrol_worker(const std::string& folder, const std::string& name) {
  PACELINE_TRY(check_name(name));
  PACELINE_ASSIGN(const FleetFolder fleet_folder, FleetFolder::open(folder));
  PACELINE_ASSIGN(const CertificateFacts authority,
                  read_certificate(fleet_folder.authority().certificate_pem));
  PACELINE_ASSIGN(const Bytes secret, random_bytes(kCodePartBytes));
  EnrolmentCode code;
  std::ranges::copy(secret, code.secret.begin());
  std::copy_n(authority.key.begin(), kCodePartBytes, code.authority.begin());
  bool known = false;
  PACELINE_TRY(fleet_folder.update([&](FleetList* fleet) -> Status {
    known = fleet->find(name) != nullptr;
    fleet->open_enrolment(name, sha256(secret), wall_clock_s());
    return {};
  }));
  return format_text(
      "%s\n\nOn the board, within %d minutes, while the server runs:\n"
      "  edge_worker join %s -\nand type the code. It is good for one board and %u tries.\n%s",
      code_text(code).c_str(), static_cast<int>(kEnrolmentLifeS / 60), host_text().c_str(),
      kEnrolmentTries,
      known ? format_text("'%s' is on the list: the board that joins takes its place.\n",
                          name.c_str())
                  .c_str()
            : "");
}

Result<std::string> list_workers(const std::string& folder) {
  PACELINE_ASSIGN(const FleetFolder fleet_folder, FleetFolder::open(folder));
  PACELINE_ASSIGN(const FleetList fleet, fleet_folder.read());
  std::string text;
  for (const ListedWorker& worker : fleet.workers)
    text += format_text(
        "%-24s enrolled %s  key %.16s%s\n", worker.name.c_str(),
        time_text(worker.enrolled_at_s).c_str(), worker.key.c_str(),
        worker.revoked_at_s == 0
            ? ""
            : format_text("  revoked %s", time_text(worker.revoked_at_s).c_str()).c_str());
  for (const PendingEnrolment& entry : fleet.pending)
    if (entry.expires_at_s > wall_clock_s())
      text += format_text("%-24s may join until %s UTC, %u tries left\n", entry.name.c_str(),
                          time_text(entry.expires_at_s).c_str(), entry.tries_left);
  return text.empty() ? "no workers yet; edge_server enrol NAME takes one in\n" : text;
}

Result<std::string> revoke_worker(const std::string& folder, const std::string& name) {
  PACELINE_ASSIGN(const FleetFolder fleet_folder, FleetFolder::open(folder));
  PACELINE_TRY(
      fleet_folder.update([&](FleetList* fleet) { return fleet->revoke(name, wall_clock_s()); }));
  return format_text("'%s' is revoked; a running server cuts it off within a second\n",
                     name.c_str());
}

}  // namespace paceline
