// What happened since a snapshot, record by record, in a file that only grows.
//
// A file begins with the snapshot that it follows: its number and the checksum of its bytes. Each
// record carries its place, the length of what was synced when it was written, a time for people
// and a CRC-32C that covers all of this and the file's beginning: a record that is torn, or belongs
// elsewhere, ends what is read. docs/reliability.md says what is kept in it.
//
// Format, little-endian; every record begins at a multiple of 8:
//   magic "PCLJ"  version u32  snapshot u64  snapshot's CRC-32C u32  CRC-32C of these u32
//   magic "PCLR"  CRC-32C u32  index u64  synced u64  time i64  length u32  zero u32  bytes  zeros
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/append_file.h"

namespace paceline {

// A model of the largest size as float32, and room.
inline constexpr size_t kJournalRecordBytesMax = size_t{320} << 20;

// The snapshot that a journal follows.
struct SnapshotId {
  uint64_t serial = 0;
  uint32_t checksum = 0;
  bool operator==(const SnapshotId&) const = default;
};

class JournalWriter {
 public:
  // Durable when it returns ok. `file` is empty.
  static Result<JournalWriter> start(std::unique_ptr<AppendFile> file, SnapshotId follows);

  // Survives a power cut after the next sync(). An error of either is final: every later call gives
  // it again. Errors: the file's; kResourceExhausted above kJournalRecordBytesMax.
  Status append(ByteSpan record, int64_t unix_us);
  Status sync();

  bool synced() const { return synced_ == bytes_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t records() const { return index_; }

 private:
  JournalWriter(std::unique_ptr<AppendFile> file, uint32_t seed)
      : file_(std::move(file)), seed_(seed) {}
  Status note(Status status);

  std::unique_ptr<AppendFile> file_;
  uint32_t seed_;  // of every record's checksum
  uint64_t index_ = 0;
  uint64_t bytes_ = 0;
  uint64_t synced_ = 0;
  Status broken_;
};

struct JournalRecord {
  ByteSpan bytes;  // in what was parsed
  int64_t unix_us = 0;
};

struct Journal {
  SnapshotId follows;
  std::vector<JournalRecord> records;  // up to the first that is not whole
  uint64_t whole_bytes = 0;            // where they end
  // A later record says that what is not whole was synced once: it is damaged, not torn.
  bool damaged = false;
};

// Reads a journal's bytes, which may be anything. Errors: kCorrupt if the beginning is not whole.
Result<Journal> parse_journal(ByteSpan file);

}  // namespace paceline
