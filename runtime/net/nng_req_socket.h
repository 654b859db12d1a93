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
  explicit ReqSocket(const DialOptions& options)
      : address_(options.address),
        tls_(options.tls),
        dial_timeout_us_(from_ms(options.dial_timeout_ms)) {}
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
  // Ends what NNG waits for in vain: a connection that is over, a dial that nothing is heard of. To
  // be called about once a second.
  void revive(TimeUs now);
  // As Channel::state().
  std::string state() const;

  // What NNG tells of the connection, for its callback only. NNG's locks are held there, so nothing
  // of NNG is called while the mutex is.
  enum class Event { kConnected, kGreeted, kGone };
  void note(uint32_t pipe_id, Event event);

 private:
  void drop_dead_connection(uint32_t pipe_id);
  void dial_afresh();

  const std::string address_;
  const std::optional<TlsOptions> tls_;
  const TimeUs dial_timeout_us_;
  uint32_t socket_id_ = 0;
  uint32_t dialer_id_ = 0;
  bool opened_ = false;

  mutable std::mutex mutex_;
  uint32_t pipe_id_ = 0;  // 0: not connected
  TimeUs news_at_ = 0;    // the newest dialer or connection began, or the connection ended
  bool greeted_ = false;  // the newest connection got past the greeting
  uint64_t connect_count_ = 0;
};

}  // namespace paceline
