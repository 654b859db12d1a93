// What workers were told, held against what the server's folder says.
//
// Whoever was told that an update is granted relies on it: it has to be in the journals, once,
// whatever happened to server and disk in between. Workers' logs (level debug) are one side; the
// folder's journals, read here record by record, and the state that a start would find there are
// the other.
//
// Use by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace paceline::test {

class History {
 public:
  struct Verdict {
    uint64_t acknowledged = 0;  // different updates that workers were told are granted
    uint64_t not_durable = 0;   // beside those: told with the warning that a crash loses them
    uint64_t applied = 0;       // in the journals
    uint64_t in_snapshots = 0;  // acknowledged, and in a snapshot alone
    // Broken promises.
    uint64_t lost = 0;
    uint64_t doubled = 0;
    uint64_t taken_though_refused = 0;
    uint64_t models_differ = 0;        // two checksums of one publication
    std::vector<std::string> reasons;  // of the first few
    bool clean() const { return lost + doubled + taken_though_refused + models_differ == 0; }
  };
  // What a start finds in a folder.
  struct Found {
    uint64_t generation = 0, publication = 0;
    uint32_t checksum = 0;  // of the publication
    bool whole = true;      // else the next life begins a new generation, because of:
    std::string fault;
  };

  // `lapses`: grants may be told not to be durable, and not every word of a grant says so.
  explicit History(bool lapses = false) : lapses_(lapses) {}

  // Of a worker's log.
  void read_worker_line(const std::string& worker, std::string_view line);

  // Often, before the server removes them; it may be at work.
  void read_journals(const std::string& folder);
  // After a life of the server and before the next one. Errors: what a start would fail with.
  Result<Found> read_folder(const std::string& folder);
  // From now on a failed write may have left something to a snapshot alone.
  void allow_gaps() { gaps_ = true; }

  // Of all that was read; to be called at the end, when what was granted has been applied.
  Verdict verdict();

 private:
  using Updates = std::vector<std::pair<uint32_t, uint64_t>>;  // worker's id and sequence

  void note_model(uint64_t publication, uint32_t checksum, const std::string& by);
  void break_promise(std::string reason);

  const bool lapses_;
  bool gaps_ = false;
  uint64_t generation_ = 1;
  std::map<std::string, std::set<uint64_t>> granted_, not_durable_, refused_, lost_;
  std::map<uint64_t, Updates> journals_;  // by serial, as each was when it was read last
  std::map<uint64_t, uint32_t> models_;   // checksums by publication
  uint64_t models_differ_ = 0;
  std::vector<std::string> names_;  // by id
  std::map<std::string, uint64_t> last_settled_;
  std::vector<std::string> reasons_;
};

}  // namespace paceline::test
