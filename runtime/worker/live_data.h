// Rows that come while the worker trains: from standard input, into a ring.
//
// A thread of its own reads and parses; whoever trains fetches what has come between two steps. A
// writer that is faster than that waits. take() and ring() belong to the training thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/data/row_ring.h"
#include "runtime/data/schema.h"

namespace paceline {

class LiveData {
 public:
  // Until start() nothing is read.
  LiveData(std::string label_column, uint32_t rows_max)
      : label_column_(std::move(label_column)), rows_max_(rows_max) {}
  LiveData(const LiveData&) = delete;
  LiveData& operator=(const LiveData&) = delete;
  ~LiveData();

  // Reads by the columns, classes and windows of a run. Errors: kInvalidArgument for a run that
  // names no columns, a ring that is too small, or a second run: the rows that the first one read
  // are gone.
  Status start(const DataSchema& schema);

  // Moves what has come into the ring, and says once that rows stay away or have ended. Errors: a
  // table that the run can't use.
  Status take(TimeUs now);
  // Null before start().
  const RowRing* ring() const { return ring_ ? &*ring_ : nullptr; }
  // "1,203 rows, 3 of them left out; 81 training windows and 20 held out": for a status line.
  std::string text() const;

 private:
  // What the reading thread has for the other; rows one behind another.
  struct Inbox {
    std::vector<float> features;
    std::vector<RingRow> rows;  // their features point nowhere until they are taken
    std::vector<bool> counts;   // false: a row that was left out
  };

  void read(std::stop_token stop);
  Status read_rows(std::stop_token stop);
  bool put(std::stop_token stop, bool counts, std::span<const float> features, const RingRow& row);
  void say_if_silent(size_t taken, bool ended, TimeUs now);

  std::string label_column_;
  uint32_t rows_max_;
  DataSchema schema_;
  std::optional<RowRing> ring_;
  uint64_t left_out_count_ = 0;
  TimeUs last_row_at_ = kNever;
  bool silence_said_ = false;
  bool end_said_ = false;
  Inbox taken_;

  std::mutex mutex_;
  std::condition_variable_any room_;
  Inbox inbox_;
  bool ended_ = false;
  Status failure_;
  std::jthread thread_;
};

}  // namespace paceline
