// The transports that the contract tests run over, with one way of waiting: a real one waits on the
// clock, the loopback one moves it.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "runtime/base/check.h"
#include "runtime/net/loopback.h"
#include "runtime/net/transport.h"
#include "tests/support/seed.h"
#include "tests/support/tls_fleet.h"

namespace paceline::test {

// Listens on `address` at first, then, so that a restart is seen, on the address that came of it.
class NngCarrier {
 public:
  explicit NngCarrier(std::string address) : address_(std::move(address)) {}
  NngCarrier(std::string address, TlsOptions server, TlsOptions worker)
      : address_(std::move(address)), server_(std::move(server)), worker_(std::move(worker)) {}

  std::unique_ptr<Listener> listen() {
    auto listener = listen_nng({.address = address_, .sessions_max = 8, .tls = server_});
    PACELINE_CHECK(listener);
    address_ = (*listener)->address();
    return std::move(*listener);
  }
  std::unique_ptr<Channel> dial() {
    auto channel = dial_nng({.address = address_, .link = {}, .tls = worker_});
    PACELINE_CHECK(channel);
    return std::move(*channel);
  }
  const char* identity() const { return worker_ ? "greenhouse" : ""; }
  template <class End, class Item>
  bool take(End& end, Item* item, TimeUs within_us) {
    return end.receive(item, monotonic_now_us() + within_us);
  }

 private:
  std::string address_;
  std::optional<TlsOptions> server_;
  std::optional<TlsOptions> worker_;
};

class TlsCarrier : public NngCarrier {
 public:
  TlsCarrier() : TlsCarrier(TlsFleet()) {}

 private:
  explicit TlsCarrier(const TlsFleet& fleet)
      : NngCarrier("tls+tcp://127.0.0.1:0", fleet.server(), fleet.worker("greenhouse")) {}
};

class TcpCarrier : public NngCarrier {
 public:
  TcpCarrier() : NngCarrier("tcp://127.0.0.1:0") {}
};

class IpcCarrier : public NngCarrier {
 public:
  IpcCarrier() : NngCarrier("ipc://" + path()) {}
  ~IpcCarrier() { std::remove(path().c_str()); }

 private:
  static std::string path() {
    return "/tmp/paceline_transport_test." + std::to_string(getpid()) + ".sock";
  }
};

class LoopbackCarrier {
 public:
  std::unique_ptr<Listener> listen() { return network_->listen(); }
  std::unique_ptr<Channel> dial() { return network_->dial("worker"); }
  const char* identity() const { return ""; }

  template <class End, class Item>
  bool take(End& end, Item* item, TimeUs within_us) {
    const TimeUs deadline = network_->now() + within_us;
    while (!end.receive(item, 0)) {
      // What is due now belongs to the other end.
      const TimeUs due = std::max(network_->next_due(), network_->now() + 1);
      network_->advance_to(std::min(due, deadline));
      if (network_->now() == deadline) return end.receive(item, 0);
    }
    return true;
  }

 private:
  std::unique_ptr<LoopbackNetwork> network_ =
      make_loopback(seed(), {.delay_us = 200, .jitter_us = 100, .link = {}});
};

}  // namespace paceline::test
