// A real server and real workers while programs are killed, networks fail, power goes and a disk
// fills, at random by a seed. History says at the end whether a promise was broken.
//
// docs/reliability.md tells what is promised and how to run it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/faults/growth.h"
#include "tests/faults/history.h"

namespace paceline::test {

// Kinds of faults, and how often each is drawn.
struct SoakFault {
  const char* name;
  uint64_t weight;
};
inline constexpr SoakFault kSoakFaults[] = {
    {"server_kill", 24}, {"server_power", 32}, {"server_stop", 4},
    {"full_disk", 4},    {"worker_kill", 14},  {"worker_stop", 4},
    {"worker_pause", 4}, {"boards_power", 4},  {"network", 10},
};

struct SoakOptions {
  std::string edge_server, edge_worker;  // the programs
  std::string folder;                    // everything is kept here; should be empty
  double seconds = 60;                   // of faults; the end comes on top
  uint64_t seed = 1;
  uint32_t workers = 8;
  std::vector<std::string> only;  // these kinds of faults; empty: all, "none": none
  bool spares_server = false;     // it is neither killed nor stopped: how it grows is to be seen
  bool cuts_power = true;         // where disk images can be mounted
  std::function<void(const std::string&)> say = [](const std::string&) {};
  // Asked often: then it is broken off, and what there is is held against what was said.
  std::function<bool()> stopped = [] { return false; };
};

struct SoakReport {
  std::string run;  // what the seed chose
  double seconds = 0;
  History::Verdict history;
  uint64_t faults = 0;
  uint64_t kills = 0, stops = 0, power_cuts = 0;  // of the server; by SIGKILL, by SIGTERM
  uint64_t worker_kills = 0, worker_stops = 0, worker_power_cuts = 0, worker_pauses = 0;
  uint64_t network_faults = 0, full_disks = 0;
  uint64_t generations = 1;
  double restart_s_max = 0;  // from the start of the program to "listening"
  std::optional<Growth::Slope> server_growth, worker_growth;
  std::string no_power_cuts;        // why not; empty: there were
  std::vector<std::string> broken;  // promises
  bool clean() const { return broken.empty() && history.clean(); }
};

SoakReport soak(const SoakOptions& options);

}  // namespace paceline::test
