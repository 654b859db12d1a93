#include "runtime/net/loopback.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/net/token_bucket.h"

namespace paceline {

namespace {

constexpr uint64_t kRandomStream = 0x6c6f6f70;  // "loop"

// Events are told apart, and ordered at equal times, by when they were made.
using EventKey = std::pair<TimeUs, uint64_t>;

struct Event {
  enum class Kind { kRequest, kReply, kTimeout };
  Kind kind = Kind::kRequest;
  uint32_t channel = 0;
  Lane lane = Lane::kExchange;
  uint64_t request = 0;
  Bytes message;
};

// A request that has neither reply nor time-out yet.
struct Pending {
  uint64_t request = 0;  // 0: none
  EventKey timeout;
};

struct End {
  End(std::string its_name, LoopbackFaults its_faults, bool has_own_faults)
      : name(std::move(its_name)),
        faults(std::move(its_faults)),
        own_faults(has_own_faults),
        up(faults.link.up_bits_per_s),
        down(faults.link.down_bits_per_s) {}

  std::string name;
  LoopbackFaults faults;
  bool own_faults = false;
  bool open = true;
  TokenBucket up;
  TokenBucket down;
  std::array<Pending, kLaneCount> pending;
  std::deque<Reply> replies;  // at most one of each lane
  uint64_t request_count = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

// All state of the network: both ends are thin handles on it, and share it.
class Loopback : public std::enable_shared_from_this<Loopback> {
 public:
  Loopback(uint64_t seed, const LoopbackFaults& faults)
      : faults_(faults), random_(seed, kRandomStream) {}

  void set_faults(const LoopbackFaults& faults) {
    faults_ = faults;
    for (End& end : ends_) {
      if (end.own_faults) continue;
      end.faults = faults;
      end.up = TokenBucket(faults.link.up_bits_per_s);
      end.down = TokenBucket(faults.link.down_bits_per_s);
    }
  }

  void advance_to(TimeUs now) {
    PACELINE_CHECK(now >= now_);
    now_ = now;
    deliver_due();
  }
  TimeUs now() const { return now_; }
  TimeUs next_due() const {
    if (!requests_.empty() || replies_waiting_ > 0) return now_;
    return events_.empty() ? kNever : std::max(events_.begin()->first.first, now_);
  }

  uint64_t start_listening();
  void stop_listening();
  bool receive(Request* request);
  void reply(uint64_t listener, const Event& request, Bytes message);

  uint32_t open_end(const std::string& name, const LoopbackFaults* own) {
    ends_.emplace_back(name, own != nullptr ? *own : faults_, own != nullptr);
    return static_cast<uint32_t>(ends_.size() - 1);
  }
  void close_end(uint32_t channel);
  uint64_t send(uint32_t channel, Lane lane, Bytes message, TimeUs timeout_us);
  bool receive(uint32_t channel, Reply* reply);
  const End& end(uint32_t channel) const { return ends_[channel]; }

 private:
  EventKey add(TimeUs at, Event event) {
    const EventKey key{at, event_count_++};
    events_.emplace(key, std::move(event));
    return key;
  }
  // Both draw whatever the faults are, so that setting one doesn't change what the others meet.
  TimeUs draw_delay(const LoopbackFaults& faults) {
    const uint64_t jitter = random_.below(static_cast<uint64_t>(faults.jitter_us) + 1);
    return faults.delay_us + static_cast<TimeUs>(jitter);
  }
  bool draw(double probability) { return random_.unit() < probability; }
  bool cut_off(const LoopbackFaults& faults, TimeUs arrives) const {
    return std::ranges::any_of(faults.outages, [&](const LoopbackFaults::Outage& outage) {
      return now_ < outage.to && arrives >= outage.from;
    });
  }

  TimeUs pass(TokenBucket& bucket, Lane lane, size_t bytes) const {
    return lane == Lane::kExchange ? bucket.take(bytes, now_) : bucket.take_urgent(bytes, now_);
  }
  void deliver_due();
  void deliver(Event event);
  void settle(uint32_t channel, Lane lane, Status status, Bytes message);

  LoopbackFaults faults_;
  Random random_;
  TimeUs now_ = 0;
  uint64_t event_count_ = 0;
  std::map<EventKey, Event> events_;
  std::deque<End> ends_;
  size_t replies_waiting_ = 0;  // over all ends
  uint64_t listener_count_ = 0;
  bool listening_ = false;
  std::deque<Event> requests_;
};

class LoopbackResponder final : public Responder {
 public:
  LoopbackResponder(std::weak_ptr<Loopback> network, uint64_t listener, Event request)
      : network_(std::move(network)), listener_(listener), request_(std::move(request)) {}

  void reply(Bytes message) override {
    PACELINE_CHECK(!std::exchange(replied_, true));
    PACELINE_CHECK(message.size() <= kMessageBytesMax);
    if (const auto network = network_.lock())
      network->reply(listener_, request_, std::move(message));
  }

 private:
  std::weak_ptr<Loopback> network_;
  uint64_t listener_;
  Event request_;  // its message has been taken
  bool replied_ = false;
};

class LoopbackListener final : public Listener {
 public:
  explicit LoopbackListener(std::shared_ptr<Loopback> network) : network_(std::move(network)) {}
  ~LoopbackListener() override { network_->stop_listening(); }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  bool receive(Request* request, TimeUs) override { return network_->receive(request); }
  void wake() override {}
  void disconnect(const std::string&) override {}  // nobody has an identity here
  std::string address() const override { return "loopback://"; }

 private:
  std::shared_ptr<Loopback> network_;
};

class LoopbackChannel final : public Channel {
 public:
  LoopbackChannel(std::shared_ptr<Loopback> network, const std::string& name,
                  const LoopbackFaults* own)
      : network_(std::move(network)), channel_(network_->open_end(name, own)) {}
  ~LoopbackChannel() override { network_->close_end(channel_); }
  LoopbackChannel(const LoopbackChannel&) = delete;
  LoopbackChannel& operator=(const LoopbackChannel&) = delete;

  uint64_t send(Lane lane, Bytes message, TimeUs timeout_us) override {
    return network_->send(channel_, lane, std::move(message), timeout_us);
  }
  bool receive(Reply* reply, TimeUs) override { return network_->receive(channel_, reply); }
  void wake() override {}
  std::string state() const override { return "connected to loopback://"; }
  uint64_t bytes_sent() const override { return network_->end(channel_).bytes_sent; }
  uint64_t bytes_received() const override { return network_->end(channel_).bytes_received; }

 private:
  std::shared_ptr<Loopback> network_;
  uint32_t channel_;
};

class LoopbackNetworkHandle final : public LoopbackNetwork {
 public:
  LoopbackNetworkHandle(uint64_t seed, const LoopbackFaults& faults)
      : network_(std::make_shared<Loopback>(seed, faults)) {}

  std::unique_ptr<Listener> listen() override {
    network_->start_listening();
    return std::make_unique<LoopbackListener>(network_);
  }
  std::unique_ptr<Channel> dial(const std::string& name) override {
    return std::make_unique<LoopbackChannel>(network_, name, nullptr);
  }
  std::unique_ptr<Channel> dial(const std::string& name, const LoopbackFaults& own) override {
    return std::make_unique<LoopbackChannel>(network_, name, &own);
  }
  void set_faults(const LoopbackFaults& faults) override { network_->set_faults(faults); }
  void advance_to(TimeUs now) override { network_->advance_to(now); }
  TimeUs now() const override { return network_->now(); }
  TimeUs next_due() const override { return network_->next_due(); }

 private:
  std::shared_ptr<Loopback> network_;
};

uint64_t Loopback::start_listening() {
  PACELINE_CHECK(!listening_);
  listening_ = true;
  return ++listener_count_;
}

void Loopback::stop_listening() {
  listening_ = false;
  requests_.clear();
}

bool Loopback::receive(Request* request) {
  deliver_due();
  if (requests_.empty()) return false;
  Event event = std::move(requests_.front());
  requests_.pop_front();
  request->message = std::move(event.message);
  request->peer_identity.clear();
  request->peer_address = "loopback://" + ends_[event.channel].name;
  request->responder =
      std::make_unique<LoopbackResponder>(weak_from_this(), listener_count_, std::move(event));
  return true;
}

void Loopback::reply(uint64_t listener, const Event& request, Bytes message) {
  End& end = ends_[request.channel];
  if (!listening_ || listener != listener_count_ || !end.open) return;
  const TimeUs through = pass(end.down, request.lane, message.size());
  const bool lost = draw(end.faults.reply_loss);
  const TimeUs at = through + draw_delay(end.faults);
  if (lost || cut_off(end.faults, at)) return;
  add(at, {.kind = Event::Kind::kReply,
           .channel = request.channel,
           .lane = request.lane,
           .request = request.request,
           .message = std::move(message)});
}

void Loopback::close_end(uint32_t channel) {
  End& end = ends_[channel];
  end.open = false;
  replies_waiting_ -= end.replies.size();
  end.replies.clear();
  for (Pending& pending : end.pending)
    if (std::exchange(pending.request, 0) != 0) events_.erase(pending.timeout);
}

uint64_t Loopback::send(uint32_t channel, Lane lane, Bytes message, TimeUs timeout_us) {
  PACELINE_CHECK(message.size() <= kMessageBytesMax);
  End& end = ends_[channel];
  replies_waiting_ -=
      std::erase_if(end.replies, [lane](const Reply& reply) { return reply.lane == lane; });
  Pending& pending = end.pending[static_cast<size_t>(lane)];
  if (pending.request != 0) events_.erase(pending.timeout);
  pending.request = ++end.request_count;
  end.bytes_sent += message.size();
  const TimeUs through = pass(end.up, lane, message.size());

  Event event{.kind = Event::Kind::kRequest,
              .channel = channel,
              .lane = lane,
              .request = pending.request,
              .message = std::move(message)};
  const bool lost = draw(end.faults.request_loss);
  const bool twice = draw(end.faults.duplication);
  const TimeUs first_at = through + draw_delay(end.faults);
  const TimeUs second_at = through + draw_delay(end.faults);
  if (twice && !lost && !cut_off(end.faults, second_at)) add(second_at, event);
  if (!lost && !cut_off(end.faults, first_at)) add(first_at, std::move(event));
  pending.timeout = add(now_ + timeout_us, {.kind = Event::Kind::kTimeout,
                                            .channel = channel,
                                            .lane = lane,
                                            .request = pending.request,
                                            .message = {}});
  return pending.request;
}

bool Loopback::receive(uint32_t channel, Reply* reply) {
  deliver_due();
  End& end = ends_[channel];
  if (end.replies.empty()) return false;
  *reply = std::move(end.replies.front());
  end.replies.pop_front();
  --replies_waiting_;
  return true;
}

void Loopback::deliver_due() {
  while (!events_.empty() && events_.begin()->first.first <= now_) {
    auto node = events_.extract(events_.begin());
    deliver(std::move(node.mapped()));
  }
}

void Loopback::deliver(Event event) {
  End& end = ends_[event.channel];
  if (event.kind == Event::Kind::kRequest) {
    // A request that its sender has replaced or given up still arrives, as on any network.
    if (listening_) requests_.push_back(std::move(event));
    return;
  }
  const Pending& pending = end.pending[static_cast<size_t>(event.lane)];
  if (event.request != pending.request) return;  // late, or of a request that was replaced
  if (event.kind == Event::Kind::kTimeout) {
    settle(event.channel, event.lane, Status(Code::kTimeout, "no answer in time"), {});
  } else {
    end.bytes_received += event.message.size();
    events_.erase(pending.timeout);
    settle(event.channel, event.lane, {}, std::move(event.message));
  }
}

void Loopback::settle(uint32_t channel, Lane lane, Status status, Bytes message) {
  End& end = ends_[channel];
  Pending& pending = end.pending[static_cast<size_t>(lane)];
  end.replies.push_back({.lane = lane,
                         .request = std::exchange(pending.request, 0),
                         .status = std::move(status),
                         .message = std::move(message)});
  ++replies_waiting_;
}

}  // namespace

std::unique_ptr<LoopbackNetwork> make_loopback(uint64_t seed, const LoopbackFaults& faults) {
  return std::make_unique<LoopbackNetworkHandle>(seed, faults);
}

}  // namespace paceline
