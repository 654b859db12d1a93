// Who may talk to a server that has a fleet: holds every request against the fleet's list, follows
// its changes, and opens a second listener while somebody is to join. Single thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log_limit.h"
#include "runtime/net/transport.h"
#include "runtime/wire/messages.h"
#include "server/fleet_folder.h"

namespace paceline {

class Gate {
 public:
  struct Outcast {
    std::string name;
    std::string key;
    Status why;
  };

  // `enrol_address`: where boards join while an enrolment is open; a port that the system gives is
  // kept from the first enrolment on. Errors: those of FleetFolder.
  static Result<std::unique_ptr<Gate>> open(const std::string& folder, std::string enrol_address);

  TlsOptions server_tls() const { return folder_.server_tls(); }
  // What workers are told to dial; once it is known.
  void set_port(unsigned port) { port_ = port; }

  // kRefused, with the reason and the fix, if this request is nobody's who may work here.
  Status admit(const Request& request) const {
    return fleet_.admit(request.peer_identity, request.peer_key);
  }
  // To be called often. Returns who was welcome and is so no longer.
  std::vector<Outcast> tick(TimeUs now);

 private:
  Gate(FleetFolder folder, std::string enrol_address)
      : folder_(std::move(folder)), enrol_address_(std::move(enrol_address)) {}
  void follow_list();
  void open_or_close_door(TimeUs now);
  void serve_newcomers(TimeUs now);
  Message answer(const Enrol& enrol, const std::string& peer_address, TimeUs now);

  FleetFolder folder_;
  std::string enrol_address_;
  unsigned port_ = 0;
  FleetList fleet_;
  std::vector<Outcast> outcasts_;  // since the last tick
  TimeUs look_at_ = 0;
  std::unique_ptr<Listener> door_;
  TimeUs keep_door_until_ = 0;  // so that the last answer gets out
  LogLimit door_lines_;
};

}  // namespace paceline
