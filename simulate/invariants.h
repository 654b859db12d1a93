// What has to hold in a fleet after every event, whatever board, network and settings do:
//
//   lead      no member's clock is further ahead of the slowest than its pace says
//   versions  generation, publication, version and round never go back, and no worker holds a
//             publication that the server has not made
//   once      an update is applied at most once, and none of a sequence that was never given out
//   bounded   the server keeps at most one request of a kind for each worker
//
// tests/simulate/ledger.h holds that no gradient mass is lost; it decodes every update for it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "simulate/fleet.h"

namespace paceline {

class FleetInvariants final : public ApplyObserver {
 public:
  // Watches the fleet's server from now on; the fleet outlives it or drops it as its observer.
  explicit FleetInvariants(Fleet& fleet);
  void applied(const Member& member, const HeldUpdate& update) override;

  // Looks at the fleet as it stands. False: something does not hold, and broken() tells what.
  bool hold();
  const std::string& broken() const { return broken_; }

 private:
  struct Numbers {
    uint64_t generation = 0, publication = 0, version = 0, round = 0;
  };

  void check_versions();
  void check_workers();
  void check_leads();

  Fleet& fleet_;
  std::string rule_;       // in force when last looked
  uint64_t lead_max_ = 0;  // of the rule; UINT64_MAX: it has no bound
  Numbers seen_;
  std::vector<std::set<uint64_t>> sequences_;  // that were applied, by worker id
  std::string broken_;
};

// The largest lead that `pace` lets anybody see, right after a push; UINT64_MAX where it has no
// bound, or is not known here.
uint64_t pace_lead_max(const std::string& pace);

}  // namespace paceline
