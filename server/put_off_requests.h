// Requests that can't be served while nothing can be written down. They wait, for a while.
//
// Bounded: of one worker as many as an honest one has under way.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/net/transport.h"

namespace paceline {

// One on each lane, and one more there that its sender has given up.
inline constexpr size_t kPutOffMax = 2 * kLaneCount;

class PutOffRequests {
 public:
  // Until when this one waits; `until` never falls. Returns what has to be answered now in its
  // place: the worker's oldest, or nothing.
  std::unique_ptr<Responder> add(const std::string& who, std::unique_ptr<Responder> responder,
                                 TimeUs until);
  // Those whose time has come.
  std::vector<std::unique_ptr<Responder>> take_due(TimeUs now);
  std::vector<std::unique_ptr<Responder>> take_all() { return take_due(kNever); }

 private:
  struct Waiting {
    std::unique_ptr<Responder> responder;
    TimeUs until = 0;
  };
  std::map<std::string, std::deque<Waiting>> waiting_;  // by worker; the oldest first
};

}  // namespace paceline
