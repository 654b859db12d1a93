// Many boards that come at once, and connections that come to harm: one process plays them all.
//
// A board is a real handshake with a certificate of its own and a real Hello, through the transport
// that workers use; it computes nothing. docs/reliability.md and docs/security.md have what was
// measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline::test {

struct StormOptions {
  std::string edge_server;   // the program
  std::string busy_program;  // the program storm, which also plays the board that works
  std::string folder;        // for fleet, run and logs; should be empty
  uint32_t boards = 500;
  // Nothing is expected of one machine that plays both ends: only how long to wait at most.
  int patience_ms = 120'000;
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// All boards, from nothing to a session.
struct Arrival {
  uint64_t boards = 0;           // that are in
  double half_s = 0, all_s = 0;  // until so many were
  double server_cpu_s = 0;
  uint64_t cut_off = 0;  // connections that the server ended before their handshake was over
  // One board that works meanwhile: a push of a chunk and a fetch of one.
  double work_p50_ms = 0, work_p99_ms = 0;
  uint64_t works = 0;
};

struct StormReport {
  Arrival first;         // at a server that runs
  Arrival again;         // after it was killed and started again
  Arrival flooded;       // with all in, and one more that pushes as fast as it can
  Arrival quiet;         // with all in: only what that one board does
  double megabytes = 0;  // of the server with all in
  double files = 0;
};
Result<StormReport> storm(const StormOptions& options);

// Peers without a certificate, or on a plain port without a word that makes sense.
struct SiegeOptions {
  std::string edge_server;
  std::string folder;
  bool secure = true;
  uint32_t silent = 1000;   // connections that say nothing, or only begin
  uint32_t halves = 100;    // greeted, with all but the end of a largest message (plain only)
  uint32_t garbage = 3000;  // connections, one after another
  uint64_t seed = 1;
  int patience_ms = 60'000;
  std::function<void(const std::string&)> say = [](const std::string&) {};
};
struct SiegeReport {
  double honest_before_s = 0;  // from the dial to a session
  double honest_during_s = 0;  // the same with all of them there
  double megabytes_before = 0, megabytes_during = 0;
  size_t files_before = 0, files_during = 0, files_after = 0;
  double files_back_s = 0;  // until its descriptors were as before
};
Result<SiegeReport> siege(const SiegeOptions& options);

}  // namespace paceline::test
