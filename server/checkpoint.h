// Two generations of a server's state on disk, so that one whole one survives any power cut.
//
// state.a and state.b are written in turn, each through a temporary file, fsync, rename and fsync
// of the folder, with a checksum. A broken one is set aside as state.<x>.bad and named, and the
// other one serves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

class CheckpointStore {
 public:
  struct Found {
    Bytes state;
    bool exact = false;  // the last words of a life that ended in order
  };

  // Makes the folder where it is missing and holds a lock on it: one server per folder.
  // Errors: kIo; kUnavailable if another process holds the lock.
  static Result<CheckpointStore> open(const std::string& folder);
  CheckpointStore(CheckpointStore&& other) noexcept;
  CheckpointStore& operator=(CheckpointStore&& other) noexcept;
  ~CheckpointStore();

  // The newest whole state; none in a new folder. A folder with broken files only is kCorrupt:
  // starting afresh over a run that was there is a decision for a person.
  Result<std::optional<Found>> load();

  // Durable when it returns ok. Errors: kIo; the older generation is then as it was.
  Status save(ByteSpan state, bool exact);

 private:
  explicit CheckpointStore(std::string folder, int lock)
      : folder_(std::move(folder)), lock_(lock) {}
  std::string path(uint64_t serial) const;

  std::string folder_;
  int lock_ = -1;
  uint64_t serial_ = 0;  // of the newest written or loaded
};

}  // namespace paceline
