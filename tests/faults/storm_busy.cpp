#include "tests/faults/storm_busy.h"

#include <cstdio>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/base/files.h"
#include "runtime/quant/codec.h"
#include "runtime/train/training.h"
#include "runtime/trust/certificate.h"
#include "tests/faults/storm_board.h"

namespace paceline::test {

namespace {

// As long as a worker computes.
constexpr std::chrono::milliseconds kStepTime(10);
constexpr uint64_t kFileBytesMax = 1 << 16;

Status write_text(const std::string& path, const std::string& text) {
  return write_file_atomically(path, std::as_bytes(std::span(text)), FileAccess::kOwner);
}

Result<std::string> read_text(const std::string& path) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(path, kFileBytesMax));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// What a worker of the run sends: its update's only chunk.
Push push_of(const Welcome& welcome) {
  const RunSpec run = parse_run(welcome.run).value();
  const ParameterLayout& layout = run.model.layout;
  PACELINE_CHECK(layout.chunk_count() == 1);
  std::vector<float> update(static_cast<size_t>(layout.element_count()));
  std::vector<float> residual(update.size());
  EncodedUpdate encoded;
  PACELINE_CHECK(
      encode_update(layout, CodecId::kQ8, {welcome.seed, 1}, update, residual, &encoded).ok());
  return {.incarnation = 1,
          .sequence = welcome.next_sequence,
          .update_checksum = encoded.checksum,
          .chunk = 0,
          .chunk_count = 1,
          .payload = encoded.chunks[0]};
}

void work(StormBoard* board) {
  const Welcome& welcome = board->welcome();
  const Push push = push_of(welcome);
  const TimeUs began = monotonic_now_us();
  const Fetch fetch{.generation = welcome.generation, .from = 0, .to = 0, .chunk = 0};
  if (!board->ask(push) || !board->ask(fetch)) return;
  std::printf("%.3f\n", static_cast<double>(monotonic_now_us() - began) / 1e3);
  std::fflush(stdout);
}

Result<StormBoard> dial(const std::string& address, const std::string& name,
                        const std::string& prefix) {
  TlsOptions tls;
  tls.server_name = kServerName;
  PACELINE_ASSIGN(tls.certificate, read_text(prefix + ".pem"));
  PACELINE_ASSIGN(tls.key, read_text(prefix + ".key"));
  PACELINE_ASSIGN(tls.authority, read_text(prefix + ".authority"));
  return StormBoard::dial(name, address, tls);
}

}  // namespace

Status write_credentials(const std::string& prefix, const TlsOptions& tls) {
  PACELINE_TRY(write_text(prefix + ".pem", tls.certificate));
  PACELINE_TRY(write_text(prefix + ".key", tls.key));
  return write_text(prefix + ".authority", tls.authority);
}

Status run_busy_board(const std::string& address, const std::string& name,
                      const std::string& prefix) {
  PACELINE_ASSIGN(StormBoard board, dial(address, name, prefix));
  for (;;) {
    if (board.in())
      work(&board);
    else
      board.tend(monotonic_now_us());
    std::this_thread::sleep_for(kStepTime);
  }
}

Status run_flooding_board(const std::string& address, const std::string& name,
                          const std::string& prefix) {
  PACELINE_ASSIGN(StormBoard board, dial(address, name, prefix));
  while (!board.in()) {
    board.tend(monotonic_now_us());
    std::this_thread::sleep_for(kStepTime);
  }
  const Push push = push_of(board.welcome());
  for (;;) board.ask_in_vain(push);
}

}  // namespace paceline::test
