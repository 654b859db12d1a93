// Ends connections to a listener that never finish their TLS handshake: NNG 1.10.1 waits for ever.
//
// NNG shows no connection before its handshake is over, so they are found among the process's own
// descriptors by the port they came to. They are shut down, not closed: NNG then sees an end and
// closes them itself. Single thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "runtime/base/clock.h"

namespace paceline {

class HandshakeReaper {
 public:
  explicit HandshakeReaper(unsigned port) : port_(port) {}

  // To be called about once a second. `finished`: remote addresses ("192.0.2.7:51234") of the
  // connections that NNG has shown. Returns how many it shut down.
  size_t sweep(const std::set<std::string>& finished, TimeUs now);

 private:
  unsigned port_;
  std::map<std::string, TimeUs> first_seen_;  // by remote address
};

}  // namespace paceline
