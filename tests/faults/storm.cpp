#include "tests/faults/storm.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "runtime/base/check.h"
#include "tests/faults/log_tail.h"
#include "tests/faults/storm_board.h"
#include "tests/faults/storm_busy.h"
#include "tests/faults/storm_server.h"
#include "tests/system/run_text.h"

namespace paceline::test {

namespace {

constexpr int kWorkPatienceMs = 20'000;  // for enough of a board's work to tell a median

double share_of(std::vector<double> times, double share) {
  if (times.empty()) return 0;
  const auto place =
      std::min(times.size() - 1, static_cast<size_t>(share * static_cast<double>(times.size())));
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(place));
  return times[place];
}

class Storm {
 public:
  Storm(const StormOptions& options, std::unique_ptr<StormServer> server)
      : options_(options), server_(std::move(server)) {}

  Result<StormReport> run() {
    PACELINE_TRY(enlist_boards());
    StormReport report;
    options_.say(format_text("%u boards dial a server that runs", options_.boards));
    report.first = arrive([&] { return dial_boards(); });
    PACELINE_TRY(check(report.first));
    options_.say("all are in; the server is killed, and starts again");
    report.megabytes = server_->megabytes();
    report.files = static_cast<double>(server_->files());
    report.quiet = arrive([] { return Status(); });
    {
      PACELINE_ASSIGN(const Process flooding, start(options_.boards + 1, "flooding"));
      PACELINE_CHECK(wait_until(
          [&] {
            tend();
            return is_joined(options_.boards + 1);
          },
          options_.patience_ms));
      report.flooded = arrive([] { return Status(); });
    }
    server_->kill_hard();
    PACELINE_CHECK(wait_until([&] { return tend() == 0; }, options_.patience_ms));
    PACELINE_TRY(server_->start_again());
    report.again = arrive([] { return Status(); });
    PACELINE_TRY(check(report.again));
    return report;
  }

 private:
  static std::string name_of(uint32_t board) { return format_text("board%u", board); }
  Status enlist_boards() {
    std::vector<std::string> names;
    for (uint32_t i = 0; i <= options_.boards + 1; ++i) names.push_back(name_of(i));
    PACELINE_ASSIGN(certificates_, server_->enlist(names));
    PACELINE_ASSIGN(busy_, start(options_.boards, "busy"));
    busy_log_.emplace(options_.folder + "/busy.out");
    if (wait_until([&] { return !take_times().empty(); })) return {};
    return fail(Code::kTimeout, "not even one board gets in: %s", tail_of(busy_->err()).c_str());
  }
  // A board that does something, in a process of its own: this one is busy with handshakes.
  Result<Process> start(uint32_t board, const std::string& role) {
    const std::string prefix = options_.folder + "/" + role;
    PACELINE_TRY(write_credentials(prefix, certificates_[board]));
    return Process(
        {options_.busy_program, {"--" + role, server_->address(), name_of(board), prefix}, prefix});
  }
  Status dial_boards() {
    for (uint32_t i = 0; i < options_.boards; ++i) {
      PACELINE_ASSIGN(StormBoard board,
                      StormBoard::dial(name_of(i), server_->address(), certificates_[i]));
      boards_.push_back(std::move(board));
    }
    return {};
  }
  // How many are in.
  size_t tend() {
    const TimeUs now = monotonic_now_us();
    size_t in = 0;
    for (StormBoard& board : boards_) {
      board.tend(now);
      in += board.in() ? 1 : 0;
    }
    return in;
  }
  template <class Begin>
  Arrival arrive(const Begin& begin);
  // In milliseconds, since the last call.
  std::vector<double> take_times() {
    std::vector<double> times;
    busy_log_->read([&](std::string_view line) {
      times.push_back(std::strtod(std::string(line).c_str(), nullptr));
    });
    return times;
  }
  Status check(const Arrival& arrival) const {
    if (arrival.boards == options_.boards) return {};
    const auto out = std::ranges::find_if(boards_, [](const StormBoard& b) { return !b.in(); });
    return fail(Code::kTimeout, "%llu of %u boards are in; one of the others: %s",
                static_cast<unsigned long long>(arrival.boards), options_.boards,
                out == boards_.end() ? "" : out->trouble().c_str());
  }
  uint64_t count_cut_off() const;
  bool is_joined(uint32_t board) const {
    return server_->process().err().find("worker " + name_of(board) + " joins") !=
           std::string::npos;
  }

  const StormOptions& options_;
  std::unique_ptr<StormServer> server_;
  std::vector<TlsOptions> certificates_;
  std::vector<StormBoard> boards_;
  std::optional<Process> busy_;
  std::optional<LogTail> busy_log_;
};

// The server says how many each time.
uint64_t Storm::count_cut_off() const {
  const std::string words = " connections ended: no handshake in time";
  const std::string log = server_->process().err();
  uint64_t count = 0;
  for (size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1))
    count += std::strtoull(log.c_str() + log.rfind(' ', at - 1), nullptr, 10);
  return count;
}

template <class Begin>
Arrival Storm::arrive(const Begin& begin) {
  Arrival arrival;
  const double cpu_before = server_->cpu_seconds();
  const uint64_t cut_off_before = count_cut_off();
  take_times();
  const TimeUs began = monotonic_now_us();
  const auto elapsed = [&] { return to_seconds(monotonic_now_us() - began); };
  if (!begin().ok()) return arrival;
  wait_until(
      [&] {
        arrival.boards = tend();
        if (arrival.half_s == 0 && 2 * arrival.boards >= options_.boards)
          arrival.half_s = elapsed();
        return arrival.boards == options_.boards;
      },
      options_.patience_ms);
  arrival.all_s = elapsed();
  arrival.server_cpu_s = server_->cpu_seconds() - cpu_before;
  // With the work that was under way at the end; and so that there is something to hold it against.
  std::vector<double> times = take_times();
  const size_t needed = arrival.all_s < 1 ? 100 : times.size() + 1;
  const auto enough = [&] {
    tend();
    const std::vector<double> more = take_times();
    times.insert(times.end(), more.begin(), more.end());
    return times.size() >= needed;
  };
  if (!wait_until(enough, kWorkPatienceMs))
    options_.say(format_text("the board that works is slow or cut off: %zu exchanges, not %zu",
                             times.size(), needed));
  arrival.works = times.size();
  arrival.work_p50_ms = share_of(times, 0.5);
  arrival.work_p99_ms = share_of(times, 0.99);
  arrival.cut_off = count_cut_off() - cut_off_before;
  return arrival;
}

}  // namespace

Result<StormReport> storm(const StormOptions& options) {
  RunText run;
  run.pace = "asp";
  run.hidden = 2048;
  run.heartbeat_ms = 5'000;
  run.exchange_deadline_ms = 30'000;
  run.checkpoint_ms = 60'000;
  PACELINE_ASSIGN(std::unique_ptr<StormServer> server,
                  StormServer::start({options.edge_server, options.folder, run.text(), true}));
  return Storm(options, std::move(server)).run();
}

}  // namespace paceline::test
