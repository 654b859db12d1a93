// How much one worker may ask of the server: who floods is answered later.
//
// A worker asks, and asks again when it has its answer, on three lanes; an answer that comes late
// slows it down. So nobody has to be turned away for being fast. The limits are what the fastest
// legal worker can do (kRequestLimits), so they are no setting.
//
// Pure: (who, bytes, now) in, when to serve it out. Bounded: what waits, and what is remembered.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "runtime/base/clock.h"

namespace paceline {

struct RequestLimits {
  double requests_per_s = 0;
  double bytes_per_s = 0;
  TimeUs burst_us = 0;           // so much time's worth may come at once
  size_t waiting_max = 0;        // requests of one worker
  size_t waiting_bytes_max = 0;  // of all workers
};
// A round trip takes 0.1 ms on one machine, where there is no network at all: 10,000 requests a
// second of a lane that never computes. A gigabit is what the best link of a board carries. One
// request is under way on each lane, and a few more may be there that their sender has given up.
inline constexpr RequestLimits kRequestLimits{.requests_per_s = 10'000,
                                              .bytes_per_s = 125e6,
                                              .burst_us = from_ms(100),
                                              .waiting_max = 16,
                                              .waiting_bytes_max = size_t{64} << 20};

class RequestRates {
 public:
  explicit RequestRates(const RequestLimits& limits = kRequestLimits) : limits_(limits) {}

  // When the request is to be served: at once, or later; of one worker in the order in which they
  // came. None: too much waits already, and it is to be dropped. `now` never falls.
  std::optional<TimeUs> take(const std::string& who, size_t bytes, TimeUs now);

  // For tests: who is remembered.
  size_t known_count() const { return sources_.size(); }

 private:
  struct Source {
    TimeUs requests_paid_us = 0;  // until when what it asked so far is paid for by the rates
    TimeUs bytes_paid_us = 0;
    std::deque<TimeUs> waiting;  // when each is served
  };
  struct Waiting {
    TimeUs serve_at = 0;
    size_t bytes = 0;
    bool operator>(const Waiting& other) const { return serve_at > other.serve_at; }
  };
  void forget(TimeUs now);

  RequestLimits limits_;
  std::map<std::string, Source> sources_;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  size_t waiting_bytes_ = 0;
  TimeUs forget_at_ = 0;
};

}  // namespace paceline
