// Who is connected to a listener, by NNG's number of the connection.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/net/nng_tls.h"

namespace paceline {

struct PeerFacts {
  std::string address;
  TlsPeer tls;
};

// Fed by NNG's pipe callbacks, which hold NNG's locks: nothing of NNG is called
// while the mutex is held.
class Peers {
 public:
  Peers(size_t connections_max, TimeUs silence_max_us)
      : connections_max_(connections_max), silence_max_us_(silence_max_us) {}

  // False: there are too many, close it.
  bool add(uint32_t pipe_id, std::string remote) {
    const std::lock_guard lock(mutex_);
    peers_[pipe_id] = {.heard_at = monotonic_now_us(), .remote = std::move(remote), .facts = {}};
    return peers_.size() <= connections_max_;
  }

  void remove(uint32_t pipe_id) {
    const std::lock_guard lock(mutex_);
    peers_.erase(pipe_id);
  }

  // A request came. Returns who is known to be there, with an empty address if nobody is yet.
  PeerFacts heard(uint32_t pipe_id) {
    const std::lock_guard lock(mutex_);
    const auto peer = peers_.find(pipe_id);
    if (peer == peers_.end()) return {};
    peer->second.heard_at = monotonic_now_us();
    return peer->second.facts;
  }

  void set_facts(uint32_t pipe_id, const PeerFacts& facts) {
    const std::lock_guard lock(mutex_);
    if (const auto peer = peers_.find(pipe_id); peer != peers_.end()) peer->second.facts = facts;
  }

  std::vector<uint32_t> of_key(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> found;
    for (const auto& [pipe_id, peer] : peers_)
      if (peer.facts.tls.key == key) found.push_back(pipe_id);
    return found;
  }

  std::set<std::string> remotes() const {
    const std::lock_guard lock(mutex_);
    std::set<std::string> found;
    for (const auto& [pipe_id, peer] : peers_) found.insert(peer.remote);
    return found;
  }

  std::vector<uint32_t> pipe_ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> found;
    for (const auto& [pipe_id, peer] : peers_) found.push_back(pipe_id);
    return found;
  }

  // Those that have been silent for too long.
  std::vector<uint32_t> silent(TimeUs now) const {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> found;
    for (const auto& [pipe_id, peer] : peers_)
      if (now - peer.heard_at > silence_max_us_) found.push_back(pipe_id);
    return found;
  }

 private:
  struct Peer {
    TimeUs heard_at = 0;
    std::string remote;  // as HandshakeReaper writes it
    PeerFacts facts;
  };
  const size_t connections_max_;
  const TimeUs silence_max_us_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Peer> peers_;
};

}  // namespace paceline
