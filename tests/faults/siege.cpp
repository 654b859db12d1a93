#include <iterator>
#include <optional>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "tests/faults/storm.h"
#include "tests/faults/storm_board.h"
#include "tests/faults/storm_server.h"
#include "tests/runtime/net/raw_peer.h"
#include "tests/system/run_text.h"

namespace paceline::test {

namespace {

// Descriptors that a server may have more than before: of the honest board that is still there.
constexpr size_t kFilesSlack = 4;
constexpr const char* kHonest[] = {"zeroth", "first", "second", "third"};

class Siege {
 public:
  Siege(const SiegeOptions& options, std::unique_ptr<StormServer> server)
      : options_(options), server_(std::move(server)), random_(options.seed, 1) {}

  Result<SiegeReport> run() {
    SiegeReport report;
    if (options_.secure) {
      PACELINE_ASSIGN(certificates_, server_->enlist({kHonest, std::end(kHonest)}));
    }
    // By then it knows its fleet.
    double seconds = 0;
    PACELINE_TRY(let_in(0, &seconds));
    PACELINE_TRY(let_in(1, &report.honest_before_s));
    report.megabytes_before = server_->megabytes();
    report.files_before = server_->files();
    std::vector<RawPeer> peers = besiege();
    PACELINE_TRY(let_in(2, &report.honest_during_s));
    report.megabytes_during = server_->megabytes();
    report.files_during = server_->files();
    send_garbage();
    PACELINE_TRY(let_in(3, &seconds));
    options_.say("all of them go");
    peers.clear();
    const TimeUs gone = monotonic_now_us();
    wait_until(
        [&] {
          report.files_after = server_->files();
          return report.files_after <= report.files_before + kFilesSlack;
        },
        options_.patience_ms);
    report.files_back_s = to_seconds(monotonic_now_us() - gone);
    return report;
  }

 private:
  // From the dial to a session.
  Status let_in(size_t which, double* seconds) {
    const std::string name = kHonest[which];
    std::optional<TlsOptions> tls;
    if (options_.secure) tls = certificates_[which];
    const TimeUs began = monotonic_now_us();
    PACELINE_ASSIGN(StormBoard board, StormBoard::dial(name, server_->address(), tls));
    const auto is_in = [&] {
      board.tend(monotonic_now_us());
      return board.in();
    };
    if (!wait_until(is_in, options_.patience_ms))
      return fail(Code::kTimeout, "the %s honest board is not let in: %s", name.c_str(),
                  board.trouble().c_str());
    *seconds = to_seconds(monotonic_now_us() - began);
    options_.say(format_text("the %s honest board is in after %.2f s", name.c_str(), *seconds));
    return {};
  }

  std::vector<RawPeer> besiege() {
    std::vector<RawPeer> peers;
    for (uint32_t i = 0; i < options_.silent; ++i) {
      peers.push_back(RawPeer::connect_to(server_->address()));
      // Every other one begins.
      if (i % 2 == 0) peers.back().send(options_.secure ? "\x16\x03\x01" : greeting(kReqProtocol));
    }
    options_.say(format_text("%u silent connections are there", options_.silent));
    if (options_.secure) return peers;
    const std::string half = greeting(kReqProtocol) + announce(kMessageBytesMax) +
                             std::string(kMessageBytesMax - 1, 'x');
    for (uint32_t i = 0; i < options_.halves; ++i) {
      peers.push_back(RawPeer::connect_to(server_->address()));
      peers.back().send(half);
    }
    options_.say(format_text("%u messages are there but for their last byte", options_.halves));
    return peers;
  }

  void send_garbage() {
    for (uint32_t i = 0; i < options_.garbage; ++i) {
      std::string garbage(8 + static_cast<size_t>(random_.below(200)), ' ');
      for (char& byte : garbage) byte = static_cast<char>(random_.next());
      RawPeer::connect_to(server_->address()).send(garbage);
    }
    options_.say(format_text("%u connections brought garbage", options_.garbage));
  }

  const SiegeOptions& options_;
  std::unique_ptr<StormServer> server_;
  std::vector<TlsOptions> certificates_;
  Random random_;
};

}  // namespace

Result<SiegeReport> siege(const SiegeOptions& options) {
  RunText run;
  run.exchange_deadline_ms = 30'000;
  PACELINE_ASSIGN(
      std::unique_ptr<StormServer> server,
      StormServer::start({options.edge_server, options.folder, run.text(), options.secure}));
  return Siege(options, std::move(server)).run();
}

}  // namespace paceline::test
