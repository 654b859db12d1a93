// The worker's NNG socket and the one connection that it keeps dialing for.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/net/transport.h"

namespace paceline {

class ReqSocket {
 public:
  ReqSocket(std::string address, std::optional<TlsOptions> tls)
      : address_(std::move(address)), tls_(std::move(tls)) {}
  ~ReqSocket() { close(); }
  ReqSocket(const ReqSocket&) = delete;
  ReqSocket& operator=(const ReqSocket&) = delete;

  // Both give NNG's error, 0 if there is none.
  int open();
  int dial();
  // All operations on the socket must have ended.
  void close();

  uint32_t id() const { return socket_id_; }
  const std::string& address() const { return address_; }

  // Closes the connection, if there is one; the next dial follows.
  void drop_connection();
  // As Channel::state().
  std::string state() const;

  // What NNG tells of the connection, for its callback only. NNG's locks are held there, so nothing
  // of NNG is called while the mutex is.
  enum class Event { kConnected, kGreeted, kGone };
  void note(uint32_t pipe_id, Event event);

 private:
  const std::string address_;
  const std::optional<TlsOptions> tls_;
  uint32_t socket_id_ = 0;
  bool opened_ = false;

  mutable std::mutex mutex_;
  uint32_t pipe_id_ = 0;  // 0: not connected
  bool greeted_ = false;  // the newest connection got past the greeting
  uint64_t connect_count_ = 0;
};

}  // namespace paceline
