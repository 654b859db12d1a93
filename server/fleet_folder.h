// The folder that makes a server the head of a fleet: authority.pem and its key, server.pem and its
// key, fleet.toml. Keys are readable by their owner only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/net/transport.h"
#include "runtime/trust/certificate_issue.h"
#include "server/fleet_list.h"

namespace paceline {

inline constexpr const char* kFleetFolder = "paceline-fleet";  // if nobody names another

struct ServerHost {
  std::vector<std::string> names;
  std::vector<std::string> addresses;
};
// What this machine is called and reached by now.
ServerHost this_host();

class FleetFolder {
 public:
  // Makes authority, server certificate and an empty list, all or nothing. Errors: kInvalidArgument
  // if something is there already: nothing is ever overwritten.
  static Status make(const std::string& folder, const ServerHost& host, int64_t now_s);
  // The same of what is there already.
  static Status write(const std::string& folder, const Signer& authority, const Signer& server,
                      const FleetList& list);
  static bool exists(const std::string& folder);
  // Errors: kNotFound with how to make one; kCorrupt, kRefused if the files do not belong together.
  static Result<FleetFolder> open(const std::string& folder);

  const std::string& path() const { return path_; }
  const Signer& authority() const { return authority_; }
  const Signer& server() const { return server_; }
  // Of the run's listener; with workers' certificates.
  TlsOptions server_tls() const;

  Result<FleetList> read() const;
  // Has the list changed since the last call?
  bool changed();
  // Reads, changes and writes the list while no other process does. An error of `change` is the
  // result; what it did to the list is written nevertheless.
  Status update(const std::function<Status(FleetList*)>& change) const;

 private:
  std::string path_;
  Signer authority_;
  Signer server_;
  std::string seen_;  // the list's file as it was last looked at
};

}  // namespace paceline
