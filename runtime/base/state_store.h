// Two generations of a program's state on disk, so that one whole one survives any power cut.
//
// <name>.a and <name>.b are written in turn, each through a temporary file, fsync, rename and fsync
// of the folder, with a checksum. A broken one is set aside as <name>.<x>.bad and named, and the
// other one serves. What the bytes mean is the owner's business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

class StateStore {
 public:
  struct Found {
    Bytes state;
    bool exact = false;   // the last words of a life that ended in order
    uint64_t serial = 0;  // rises with each state
  };

  // Makes the folder where it is missing and holds a lock on it: one program per folder.
  //   name   of the files, without a slash: "state", "worker"
  // Errors: kIo; kUnavailable if another process holds the lock.
  static Result<StateStore> open(const std::string& folder, const std::string& name);
  StateStore(StateStore&& other) noexcept;
  StateStore& operator=(StateStore&& other) noexcept;
  ~StateStore();

  // The newest whole state; none in a new folder. Errors: kCorrupt if there are broken files only,
  // which are set aside; kIo.
  Result<std::optional<Found>> load();

  // One file, without a lock and as it is. Errors: kNotFound; kCorrupt; kIo.
  static Result<Found> read(const std::string& path);

  // Of the newest written or loaded; 0: none yet.
  uint64_t serial() const { return serial_; }
  // The next state's number is above this one, too; it still takes the older one's file.
  void skip_to(uint64_t serial) { serial_ = std::max(serial_, serial + ((serial ^ serial_) & 1)); }
  // Of the one that serves where the newest is broken; 0: none.
  uint64_t older_serial() const { return older_; }
  // Where the state of this number is, or was.
  std::string path(uint64_t serial) const;

  // Durable when it returns ok. Errors: kIo; the older generation is then as it was.
  Status save(ByteSpan state, bool exact);

  // Whole files that are of no use to their owner: kept as <name>.<x>.bad, out of the way.
  void set_aside(const char* why);

 private:
  StateStore(std::string folder, std::string name, int lock)
      : folder_(std::move(folder)), name_(std::move(name)), lock_(lock) {}

  std::string folder_;
  std::string name_;
  int lock_ = -1;
  uint64_t serial_ = 0;
  uint64_t newest_ = 0, older_ = 0;  // on disk; 0: none
};

}  // namespace paceline
