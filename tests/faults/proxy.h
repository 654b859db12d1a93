// A TCP proxy that does to connections what a bad network does: it slows them, holds them up one
// way or both, cuts them, and changes bytes.
//
// It listens on a free port of 127.0.0.1. What it draws depends on the seed alone; when bytes pass
// is up to the machine. A thread of its own; every call may come from any other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"

namespace paceline::test {

// Of one direction.
struct LinkFaults {
  TimeUs delay_us = 0;
  double bits_per_s = 0;  // 0: as fast as it goes
  // Nothing passes and nobody is told; what comes waits, as packets that are sent again would.
  bool held = false;
  double garbled_share = 0;  // of the bytes, one bit each
};

class Proxy {
 public:
  struct Options {
    std::string target;  // "127.0.0.1:7433"; who is not there is tried again at every connection
    uint64_t seed = 0;
    uint64_t stream = 0;
  };
  // Errors: kIo, with the system's reason.
  static Result<std::unique_ptr<Proxy>> start(const Options& options);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  const std::string& address() const { return address_; }

  // Of connections from now on.
  void set_target(const std::string& target);
  // From who dialed to the target, and back.
  void set_up(const LinkFaults& faults);
  void set_down(const LinkFaults& faults);
  // A black hole, and a network as it should be.
  void hold();
  void heal();

  // Ends all connections on both sides.
  void cut();
  // Ends them on the target's side; who dialed is not told, and what it sends goes nowhere.
  void half_open();

  uint64_t bytes_passed() const { return bytes_passed_; }
  uint64_t bytes_garbled() const { return bytes_garbled_; }

 private:
  struct Connection;
  struct Flow;

  Proxy(const Options& options, int listener, int waker, std::string address);
  void run();
  void accept_one();
  void apply_orders();
  TimeUs wait_for_sockets(TimeUs now);
  void move_bytes(Connection& connection, TimeUs now);
  void read_some(Flow& flow, const LinkFaults& faults, TimeUs now);
  void write_due(Flow& flow, const LinkFaults& faults, TimeUs now);
  void wake() const;

  const std::string address_;
  const int listener_;
  const int waker_;  // an eventfd
  std::mutex mutex_;
  std::string target_;
  LinkFaults up_, down_;
  bool cut_ordered_ = false;
  bool half_open_ordered_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> bytes_passed_ = 0;
  std::atomic<uint64_t> bytes_garbled_ = 0;
  // The thread's own.
  Random random_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace paceline::test
