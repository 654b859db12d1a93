// A server core on a desk: hand-made requests in, replies out, time as the test says.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "server/server_core.h"

namespace paceline::test {

// A run with `inputs` x `units` weights; 4 x 3 is one chunk, 600 x 300 two.
inline std::string desk_run_text(uint32_t inputs, uint32_t units) {
  return format_text(
      "[model]\ninput = [%u]\nclasses = %u\n[[layer]]\ntype = \"dense\"\nunits = %u\n"
      "[training]\nbatch = 4\nrate = 0.1\nseed = 3\n",
      inputs, units, units);
}

inline ServerOptions desk_options(const char* pace, uint32_t inputs = 4, uint32_t units = 3) {
  ServerOptions options;
  options.run_text = desk_run_text(inputs, units);
  options.run = parse_run(options.run_text).value();
  options.pace = pace;
  options.freq = "fixed:1";
  options.codec_up = options.codec_down = CodecId::kRaw32;
  return options;
}

class ServerDesk {
 public:
  explicit ServerDesk(ServerOptions options)
      : core_(ServerCore::make(std::move(options)).value()) {}

  ServerCore& core() { return *core_; }
  const ParameterLayout& layout() const { return core_->options().run.model.layout; }

  // The reply, if there is one at once; else it is parked and comes under the token later.
  std::optional<Message> ask(uint64_t session, Message message) {
    core_->on_request(++last_token, peer_identity, {session, std::move(message)}, now);
    return answer(last_token);
  }
  // Takes the reply to an earlier request, if it has come.
  std::optional<Message> answer(uint64_t token) {
    for (ServerCore::Reply& reply : core_->take_replies()) {
      PACELINE_CHECK(answers_.count(reply.token) == 0);  // one answer to one request
      answers_[reply.token] = std::move(reply.envelope.message);
    }
    const auto found = answers_.find(token);
    if (found == answers_.end()) return std::nullopt;
    std::optional<Message> message = std::move(found->second);
    answers_.erase(found);
    return message;
  }
  void pass(TimeUs us) {
    now += us;
    core_->on_timer(now);
  }

  TimeUs now = 1'000'000;
  std::string peer_identity;  // of whoever asks: what the transport knows of it
  uint64_t last_token = 0;

 private:
  std::unique_ptr<ServerCore> core_;
  std::map<uint64_t, Message> answers_;
};

// The far end, by hand: says what it is told to and remembers only its numbers.
struct HandWorker {
  ServerDesk* desk;
  std::string name;
  uint64_t rows = 100;
  uint64_t held_out_rows = 0;
  uint64_t incarnation = 1;
  uint64_t session = 0;
  uint64_t sequence = 0;  // of the newest update
  uint64_t exchange_token = 0;
  Welcome welcome = {};
  Statistics statistics = {};  // of every update

  Message say_hello() {
    const ModelSpec& model = desk->core().options().run.model;
    Hello hello;
    hello.name = name;
    hello.incarnation = incarnation;
    hello.build = "by hand";
    hello.last_settled = sequence;
    hello.training_rows = rows;
    hello.held_out_rows = held_out_rows;
    hello.feature_count = static_cast<uint32_t>(model.input_features());
    hello.class_count = model.class_count;
    Message answer = desk->ask(0, hello).value();
    if (const auto* found = std::get_if<Welcome>(&answer)) {
      welcome = *found;
      session = welcome.session;
    }
    return answer;
  }

  // Every parameter moves by `value`.
  EncodedUpdate update(float value) const {
    const ParameterLayout& layout = desk->layout();
    std::vector<float> flat(layout.element_count()), residual(flat.size());
    for (const TensorSpec& tensor : layout.tensors())
      for (uint64_t i = 0; i < tensor.count; ++i)
        flat[static_cast<size_t>(tensor.offset + i)] = value;
    EncodedUpdate encoded;
    PACELINE_CHECK(encode_update(layout, CodecId::kRaw32, {3, 1}, flat, residual, &encoded).ok());
    return encoded;
  }
  uint32_t checksum_of(const EncodedUpdate& encoded) const {
    return crc32c(std::as_bytes(std::span(statistics.values)), encoded.checksum);
  }
  Push push_of(const EncodedUpdate& encoded, uint32_t chunk) const {
    return {incarnation,
            sequence,
            checksum_of(encoded),
            chunk,
            static_cast<uint32_t>(encoded.chunks.size()),
            encoded.chunks[chunk]};
  }
  // The commit of update `sequence` on the server's present model and round.
  Exchange exchange_of(const EncodedUpdate& encoded) const {
    const ServerCore& core = desk->core();
    Exchange exchange;
    exchange.incarnation = incarnation;
    exchange.sequence = sequence;
    exchange.update_checksum = checksum_of(encoded);
    exchange.statistic_rows = statistics.rows;
    exchange.statistics = statistics.values;
    exchange.chunk_count = static_cast<uint32_t>(encoded.chunks.size());
    exchange.generation = core.generation();
    exchange.base_publication = core.publication();
    exchange.base_checksum = core.checksum();
    exchange.round = core.round();
    exchange.steps = 1;
    return exchange;
  }
  void push(const EncodedUpdate& encoded) {
    for (uint32_t i = 0; i < encoded.chunks.size(); ++i)
      PACELINE_CHECK(std::holds_alternative<Got>(*desk->ask(session, push_of(encoded, i))));
  }
  // A whole exchange of a new sequence; the answer, if there is one at once.
  std::optional<Message> exchange(float value) {
    ++sequence;
    const EncodedUpdate encoded = update(value);
    push(encoded);
    std::optional<Message> answer = desk->ask(session, exchange_of(encoded));
    exchange_token = desk->last_token;
    return answer;
  }
  std::optional<Message> late_answer() { return desk->answer(exchange_token); }
  void beat() { desk->ask(session, Heartbeat{incarnation, 1, desk->core().round(), 1000, false}); }
};

// All are counted afterwards, with nothing held, whatever the pace: the first one's round closes
// without the others, the next one with them.
inline void join(std::initializer_list<HandWorker*> workers) {
  for (HandWorker* worker : workers) worker->say_hello();
  for (HandWorker* worker : workers) worker->exchange(0.0f);
  (*workers.begin())->exchange(0.0f);
  for (const Member& member : (*workers.begin())->desk->core().members())
    PACELINE_CHECK(member.counted && !member.held);
}

template <class T>
const T* as(const std::optional<Message>& message) {
  return message ? std::get_if<T>(&*message) : nullptr;
}

inline RefusalClass refusal_of(const std::optional<Message>& message) {
  const auto* refused = as<Refused>(message);
  PACELINE_CHECK(refused != nullptr);
  return refused->refusal;
}

// By how much the master's first parameter has moved from `before`.
inline float moved(ServerDesk& desk, float before) { return desk.core().master()[0] - before; }

}  // namespace paceline::test
