#include "runtime/worker/daemon.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/nearest.h"
#include "runtime/base/signals.h"
#include "runtime/base/version.h"
#include "runtime/trust/certificate.h"
#include "runtime/worker/live_data.h"
#include "runtime/worker/local_trainer.h"

namespace paceline {

namespace {

constexpr TimeUs kGoodbyePatienceUs = from_ms(5000);
constexpr TimeUs kLongestWaitUs = from_ms(1000);
constexpr TimeUs kLookEveryUs = from_ms(1000);  // at the connection

// Heartbeats of their own: a long step never makes a board look dead.
class HeartbeatThread {
 public:
  explicit HeartbeatThread(Channel* channel) : channel_(channel) {
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }
  ~HeartbeatThread() {
    thread_.request_stop();
    changed_.notify_all();
  }

  void set(std::optional<Envelope> beat, uint32_t every_ms) {
    const std::lock_guard lock(mutex_);
    const bool first = !beat_ && beat;
    beat_ = std::move(beat);
    every_ms_ = every_ms;
    if (first) changed_.notify_all();
  }

 private:
  void run(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      if (beat_) {
        Bytes message = encode(*beat_);
        const TimeUs timeout = from_ms(every_ms_) * 2;
        lock.unlock();
        channel_->send(Lane::kHeartbeat, std::move(message), timeout);
        lock.lock();
        changed_.wait_for(lock, stop, std::chrono::milliseconds(every_ms_), [] { return false; });
      } else {
        changed_.wait(lock, stop, [this] { return beat_.has_value(); });
      }
    }
  }

  Channel* channel_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Envelope> beat_;
  uint32_t every_ms_ = 1000;
  std::jthread thread_;
};

Status check_backend(const std::string& name) {
  const std::vector<std::string> usable = backends();
  std::vector<std::string_view> known = {"auto"};
  known.insert(known.end(), usable.begin(), usable.end());
  if (std::ranges::find(known, std::string_view(name)) != known.end()) return {};
  return fail(Code::kInvalidArgument, "--backend '%s' is unknown or not usable on this machine%s",
              name.c_str(), suggest_name(name, known).c_str());
}

// Without randomness nothing may be sent that should be private.
void fill_with_noise(std::span<std::byte> bytes) {
  const Result<Bytes> drawn = random_bytes(bytes.size());
  PACELINE_CHECK(drawn.has_value());
  std::ranges::copy(*drawn, bytes.begin());
}

// Drives one core over one channel.
class WorkerDaemon {
 public:
  WorkerDaemon(const WorkerDaemonOptions& options, const LocalData& data, WorkerCore* core,
               StateKeeper* keeper, Channel* channel)
      : options_(options),
        data_(data),
        core_(*core),
        keeper_(*keeper),
        channel_(*channel),
        heartbeat_(channel) {}

  Status run(const std::atomic<int>& stops) {
    core_.start(monotonic_now_us());
    TimeUs give_up_at = kNever;
    while (core_.activity() != Activity::kStopped) {
      flush();
      const TimeUs now = monotonic_now_us();
      if (data_.live) PACELINE_TRY(data_.live->take(now));
      if (stops > 0 && give_up_at == kNever) {
        log_info("leaving: what is not sent yet goes first");
        core_.leave(now);
        give_up_at = now + kGoodbyePatienceUs;
        continue;
      }
      if (now >= give_up_at || stops > 1) {
        log_warning("left without the server's answer");
        break;
      }
      if (core_.next_timer() <= now) core_.on_timer(now);
      const Activity activity = core_.activity();
      if (activity == Activity::kTrain || activity == Activity::kEvaluate)
        compute(activity, now);
      else
        wait(std::min({core_.next_timer(), give_up_at, now + kLongestWaitUs}));
      keeper_.tick(monotonic_now_us());
      watch_connection(monotonic_now_us());
      say_where_it_stands(monotonic_now_us());
    }
    flush();
    keeper_.save_last();
    return core_.failure();
  }

 private:
  void flush() {
    for (WorkerCore::Outgoing& out : core_.take_outgoing())
      channel_.send(out.lane, encode(out.envelope), out.timeout_us);
    heartbeat_.set(core_.heartbeat(), core_.heartbeat_ms());
  }

  // Handles what has come; waits for something until `deadline`.
  void wait(TimeUs deadline) {
    Reply reply;
    while (channel_.receive(&reply, deadline)) {
      const TimeUs now = monotonic_now_us();
      note_answer(reply.status);
      if (!reply.status.ok()) {
        core_.on_failure(reply.lane, reply.status, now);
      } else if (const Result<Envelope> envelope = decode(reply.message)) {
        core_.on_reply(reply.lane, *envelope, now);
      } else {
        log_warning("an answer of the server is broken: %s", envelope.error().message().c_str());
        core_.on_failure(reply.lane, envelope.error(), now);
      }
      flush();
      deadline = 0;  // the rest of what is there, without waiting
    }
  }

  // Says once that the server does not answer, and once that it does again.
  void note_answer(const Status& status) {
    if (status.ok() == answered_) return;
    answered_ = status.ok();
    if (answered_)
      log_info("the server answers again");
    else if (connected_)
      log_warning("waiting for the server: %s, though %s", status.message().c_str(),
                  channel_.state().c_str());
  }

  // Says when the connection comes and when it goes. A request that was under way is unknown until
  // its time is over, which may be long after.
  void watch_connection(TimeUs now) {
    if (now < next_look_at_) return;
    next_look_at_ = now + kLookEveryUs;
    const std::string state = channel_.state();
    const bool connected = state.starts_with("connected");
    if (connected == connected_) return;
    connected_ = connected;
    if (connected_)
      log_info("%s", state.c_str());
    else
      log_warning("waiting for the server: %s", state.c_str());
  }

  void compute(Activity activity, TimeUs now) {
    const uint64_t ticket = core_.work_ticket();
    if (options_.step_ms > 0) {
      // The emulated board computes until then; a cut in between aborts the step, as it would
      // there.
      const double rows = activity == Activity::kTrain ? core_.next_rows()
                                                       : static_cast<double>(kEvaluatedRowsMax) / 3;
      const double cost_us = options_.step_ms * 1000 * rows / core_.batch_rows();
      const TimeUs until = std::max(unit_started_, now - from_ms(5)) +
                           static_cast<TimeUs>(std::max(0.0, cost_us - unit_cost_us_));
      while (core_.work_ticket() == ticket && monotonic_now_us() < until) wait(until);
    } else {
      wait(0);
    }
    if (core_.work_ticket() == ticket && core_.activity() == activity) {
      const TimeUs begin = monotonic_now_us();
      core_.work(begin);
      const TimeUs end = monotonic_now_us();
      if (activity == Activity::kTrain)
        unit_cost_us_ = 0.9 * unit_cost_us_ + 0.1 * static_cast<double>(end - begin);
      unit_started_ = end;
    } else {
      unit_started_ = monotonic_now_us();
    }
  }

  void say_where_it_stands(TimeUs now) {
    if (now < next_line_at_) return;
    next_line_at_ = now + from_ms(10'000);
    const WorkerStats& stats = core_.stats();
    log_info(
        "publication %llu, %llu steps, loss %.3f, %llu exchanges, %.1f kB up, %.1f kB down%s%s",
        static_cast<unsigned long long>(core_.publication()),
        static_cast<unsigned long long>(stats.steps), static_cast<double>(core_.training_loss()),
        static_cast<unsigned long long>(stats.exchanges),
        static_cast<double>(channel_.bytes_sent()) / 1e3,
        static_cast<double>(channel_.bytes_received()) / 1e3,
        core_.activity() == Activity::kIdle ? "; waits for " : "",
        core_.activity() == Activity::kIdle ? core_.waiting_for().c_str() : "");
    if (data_.live) log_info("%s", data_.live->text().c_str());
    if (const std::string score = forecast_text(data_.forecast); !score.empty())
      log_info("%s", score.c_str());
    if (core_.publication() == 0) log_info("%s", channel_.state().c_str());
  }

  const WorkerDaemonOptions& options_;
  const LocalData& data_;
  WorkerCore& core_;
  StateKeeper& keeper_;
  Channel& channel_;
  HeartbeatThread heartbeat_;
  bool answered_ = true;  // the last request
  bool connected_ = false;
  TimeUs next_look_at_ = 0;
  TimeUs unit_started_ = 0;
  double unit_cost_us_ = 0;
  TimeUs next_line_at_ = 0;
};

}  // namespace

Status run_worker(const WorkerDaemonOptions& options) {
  PACELINE_TRY(check_backend(options.backend));
  PACELINE_ASSIGN(std::shared_ptr<LocalData> data, open_local_data(options.data));
  // Declared before the channel, so that it outlives whatever the channel calls.
  std::atomic<int> stops = 0;
  std::atomic<Channel*> waking = nullptr;
  std::optional<StopSignals> signals;
  signals.emplace([&](int count) {
    stops = count;
    if (Channel* channel = waking.load()) channel->wake();
  });
  std::random_device entropy;
  WorkerOptions core_options;
  core_options.name = options.name;
  core_options.build = kVersionText;
  core_options.incarnation = (uint64_t{entropy()} << 32 | entropy()) | 1;
  static_cast<RowCounts&>(core_options) = rows_of(*data);
  core_options.jitter_seed = core_options.incarnation;
  core_options.noise_bytes = fill_with_noise;
  core_options.epsilon_max = options.epsilon_max;

  WorkerCore core(core_options, make_local_run_factory(data, options.name, options.backend));
  PACELINE_ASSIGN(StateKeeper keeper, StateKeeper::open(options.state, &core));

  DialOptions dial;
  dial.address = options.server;
  dial.tls = options.tls;
  dial.link = options.link;
  dial.jitter_seed = core_options.jitter_seed;
  PACELINE_ASSIGN(std::unique_ptr<Channel> channel, dial_nng(dial));
  waking = channel.get();
  Status status = WorkerDaemon(options, *data, &core, &keeper, channel.get()).run(stops);
  signals.reset();  // so that nobody wakes a channel that is going
  if (status.ok())
    log_info("done: publication %llu, checksum %08x, %llu steps, %llu exchanges",
             static_cast<unsigned long long>(core.publication()), core.published_checksum(),
             static_cast<unsigned long long>(core.stats().steps),
             static_cast<unsigned long long>(core.stats().exchanges));
  if (data->live) log_info("%s", data->live->text().c_str());
  if (const std::string score = forecast_text(data->forecast); !score.empty())
    log_info("%s", score.c_str());
  if (const std::optional<PrivacySpec>& privacy = core.run().privacy)
    log_info("privacy spent: epsilon %.4g at delta %g", core.spent_epsilon(), privacy->delta);
  if (core.stats().lost_count > 0)
    log_info("lost on the way: %.3g in weight units, %llu times", core.stats().lost_gradient_total,
             static_cast<unsigned long long>(core.stats().lost_count));
  // A server that does not name columns only says that the rows do not fit.
  if (status.code() == Code::kRefused && !data->unread.ok()) return data->unread;
  return status;
}

}  // namespace paceline
