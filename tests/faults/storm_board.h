// One board of a storm: says Hello until it is let in, and sends heartbeats from then on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/net/transport.h"
#include "runtime/wire/messages.h"

namespace paceline::test {

class StormBoard {
 public:
  // Errors: those of dial_nng().
  static Result<StormBoard> dial(const std::string& name, const std::string& address,
                                 const std::optional<TlsOptions>& tls);

  // To be called often: asks what is due and takes what has come.
  void tend(TimeUs now);
  bool in() const { return session_ != 0; }
  const std::string& trouble() const { return trouble_; }  // the last; for messages

  // Asks and waits for the answer, if it has a session; nothing else may be under way. Errors: what
  // the transport says; kRefused.
  Result<Message> ask(Message message);
  // Asks on every lane and waits for nothing.
  void ask_in_vain(const Message& message);
  const Welcome& welcome() const { return welcome_; }

 private:
  explicit StormBoard(std::string name) : name_(std::move(name)) {}
  void beat();
  void take(const Reply& reply, TimeUs now);

  std::string name_;
  std::unique_ptr<Channel> channel_;
  Welcome welcome_;
  uint64_t session_ = 0;
  TimeUs ask_at_ = 0;  // kNever: an answer is awaited
  std::string trouble_;
};

}  // namespace paceline::test
