// Connections under TLS that end while they carry something, or before they are made.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/net/transport.h"
#include "tests/faults/proxy.h"
#include "tests/support/seed.h"
#include "tests/support/tls_fleet.h"

using namespace paceline;
using namespace paceline::test;

#if defined(__SANITIZE_ADDRESS__)
// NNG 1.10.1 keeps the messages of a connection whose end it tells to nobody
// (runtime/net/nng_tls.h).
extern "C" const char* __lsan_default_suppressions() { return "leak:paceline::to_nng_msg"; }
#endif

namespace {

// Never reached: who is cut off for good would wait longer.
constexpr TimeUs kPatienceUs = from_ms(60'000);
constexpr uint32_t kDialTimeoutMs = 5'000;
constexpr TimeUs kRequestTimeoutUs = from_ms(2'000);
constexpr size_t kAskers = 8;

struct Asker {
  std::unique_ptr<Channel> channel;
  bool asks = false;
  uint64_t answers = 0;
};

// Askers that never rest, behind a proxy, and who answers them.
class Site {
 public:
  Site()
      : listener_(*listen_nng({.address = "tls+tcp://127.0.0.1:0", .tls = fleet_.server()})),
        proxy_(*Proxy::start(
            {.target = listener_->address().substr(sizeof "tls+tcp://" - 1), .seed = seed()})) {
    for (size_t i = 0; i < kAskers; ++i)
      askers_.push_back({.channel = *dial_nng({.address = "tls+tcp://" + proxy_->address(),
                                               .link = {},
                                               .dial_timeout_ms = kDialTimeoutMs,
                                               .tls = fleet_.worker("asker")})});
  }

  void cut() { proxy_->cut(); }
  void go_on_for(TimeUs span) {
    const TimeUs until = monotonic_now_us() + span;
    while (monotonic_now_us() < until) turn();
  }
  // From now on each of them.
  bool all_are_answered() {
    for (Asker& asker : askers_) asker.answers = 0;
    const auto answered = [](const Asker& asker) { return asker.answers > 0; };
    const TimeUs until = monotonic_now_us() + kPatienceUs;
    while (!std::ranges::all_of(askers_, answered)) {
      if (monotonic_now_us() >= until) return false;
      turn();
    }
    return true;
  }

 private:
  void turn() {
    Request request;
    while (listener_->receive(&request, 0)) request.responder->reply(answer_);
    for (Asker& asker : askers_) {
      Reply reply;
      while (asker.channel->receive(&reply, 0)) {
        asker.asks = false;
        asker.answers += reply.status.ok() ? 1 : 0;
      }
      if (std::exchange(asker.asks, true)) continue;
      asker.channel->send(Lane::kExchange, question_, kRequestTimeoutUs);
    }
  }

  const Bytes question_ = Bytes(25'000, std::byte{1});
  const Bytes answer_ = Bytes(98'000, std::byte{2});
  TlsFleet fleet_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Proxy> proxy_;
  std::vector<Asker> askers_;
};

TEST_SUITE("faults/cut") {
  TEST_CASE("a connection that is cut while it carries something is made again") {
    set_log_level(LogLevel::kOff);
    Site site;
    Random random(seed(), 1);
    for (int i = 0; i < 8; ++i) {
      CAPTURE(i);
      REQUIRE(site.all_are_answered());
      site.go_on_for(static_cast<TimeUs>(random.below(10'000)));
      site.cut();
    }
    CHECK(site.all_are_answered());
  }

  TEST_CASE("a dial that is cut off before the greeting is begun anew") {
    set_log_level(LogLevel::kOff);
    Site site;
    Random random(seed(), 2);
    for (int i = 0; i < 20; ++i) {
      site.go_on_for(static_cast<TimeUs>(random.below(160'000)));
      site.cut();
    }
    CHECK(site.all_are_answered());
  }
}

}  // namespace
