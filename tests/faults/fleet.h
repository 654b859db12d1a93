// The programs of a soak: a server, workers behind proxies, what they say, and how they start and
// end. Nothing here decides what befalls them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "tests/faults/growth.h"
#include "tests/faults/history.h"
#include "tests/faults/log_tail.h"
#include "tests/faults/proxy.h"
#include "tests/system/process.h"

namespace paceline::test {

inline constexpr int kStartPatienceMs = 60'000;

// One life of a program, and what it has said.
struct Life {
  Process process;
  LogTail log;
};

struct Board {
  std::string name;
  std::string state_folder;
  std::vector<std::string> arguments;
  std::unique_ptr<Proxy> proxy;
  std::optional<Life> life;
  uint32_t lives = 0;
  uint64_t publications_taken = 0;
  TimeUs network_until = 0;  // then its network is mended; 0: it is whole
  TimeUs paused_until = 0;   // by SIGSTOP; 0: it runs
};

struct FleetOptions {
  std::string edge_server, edge_worker;
  std::string folder;        // for data and logs
  std::string state_folder;  // the server's
  std::string run_text;
  std::string journal;
  uint64_t seed = 1;
};

class Fleet {
 public:
  Fleet(FleetOptions options, History* history);

  void add_board(const std::string& name, const std::string& state_folder,
                 std::vector<std::string> arguments);
  std::vector<Board>& boards() { return boards_; }
  void start_board(Board& board);

  // Until it listens. Errors: what the program said when it ended.
  Status start_server(const std::string& rounds = "1000000000");
  bool server_runs() { return server_ && server_->process.running(); }
  Process& server() { return server_->process; }
  void kill_server();
  // SIGTERM. Errors: it did not end in order.
  Status stop_server();
  // SIGSTOP, until it stands still.
  static void pause(Process& process);

  // Takes in what all have said since the last time.
  void read_logs();
  // Lets time pass until `condition` holds. False: it does not after so long.
  bool wait_for(const std::function<bool()>& condition, int within_ms);

  // What the server's newest life has said.
  uint64_t publications_made() const { return publications_made_; }  // of all lives
  bool journal_in_trouble() const { return journal_in_trouble_; }
  const std::string& went_on_from() const { return went_on_from_; }  // "generation 1, publ..."
  const std::string& last_words() const { return last_words_; }      // "publication 7, checksum .."
  double restart_s_max() const { return restart_s_max_; }

 private:
  void read_server_line(std::string_view line);

  FleetOptions options_;
  History& history_;
  std::vector<Board> boards_;
  std::optional<Life> server_;
  uint32_t server_lives_ = 0;
  std::string run_file_;
  std::string address_;
  uint64_t publications_made_ = 0;
  bool journal_in_trouble_ = false;
  std::string went_on_from_, last_words_;
  double restart_s_max_ = 0;
};

}  // namespace paceline::test
