// The fleet's list: who may work here, by name and by key, and who may join now. It is
// `fleet.toml` in the fleet's folder; people change it by `edge_server enrol` and `revoke`, and a
// running server follows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/trust/certificate.h"

namespace paceline {

inline constexpr int64_t kEnrolmentLifeS = 15 * 60;
inline constexpr uint32_t kEnrolmentTries = 5;

struct ListedWorker {
  std::string name;
  std::string key;     // hash of its public key, hex: this is who it is
  std::string serial;  // of its certificate
  int64_t enrolled_at_s = 0;
  int64_t revoked_at_s = 0;  // 0: it may work
  bool operator==(const ListedWorker&) const = default;
};

// Somebody may join under `name` who knows the secret.
struct PendingEnrolment {
  std::string name;
  std::string secret_hash;  // SHA-256, hex
  int64_t expires_at_s = 0;
  uint32_t tries_left = kEnrolmentTries;
  bool operator==(const PendingEnrolment&) const = default;
};

struct FleetList {
  std::vector<ListedWorker> workers;
  std::vector<PendingEnrolment> pending;

  const ListedWorker* find(std::string_view name) const;
  // kRefused, with the reason and the fix, unless this name has this key here and may work.
  Status admit(const std::string& name, const std::string& key) const;
  // Is somebody to join?
  bool awaits(int64_t now_s) const;
  // Opens the enrolment of `name`; an earlier one of that name is over.
  void open_enrolment(const std::string& name, const Hash& secret_hash, int64_t now_s);
  // Takes the enrolment that this secret is for and returns its name. A wrong secret costs every
  // open enrolment a try: nobody knows which one it meant. Errors: kRefused.
  Result<std::string> use_secret(const Hash& secret_hash, int64_t now_s);
  // Puts a worker on the list, or another key under its name.
  void enlist(ListedWorker worker);
  // Errors: kNotFound with the nearest name; kInvalidArgument if it is revoked already.
  Status revoke(const std::string& name, int64_t now_s);

  bool operator==(const FleetList&) const = default;
};

std::string fleet_text(const FleetList& fleet);
// `source` names the text in messages. Errors: kCorrupt with line and column.
Result<FleetList> parse_fleet(std::string_view text, const std::string& source);

}  // namespace paceline
