#include "runtime/base/journal.h"

#include <utility>

#include "runtime/base/checksum.h"

namespace paceline {

namespace {

constexpr uint32_t kMagic = 0x4A4C4350;        // "PCLJ"; for ever
constexpr uint32_t kRecordMagic = 0x524C4350;  // "PCLR"; for ever
constexpr uint32_t kVersion = 1;
constexpr size_t kBeginningBytes = 24;
constexpr size_t kFrameBytes = 40;
constexpr size_t kAlignment = 8;

Bytes beginning(SnapshotId follows) {
  ByteWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put(follows.serial);
  out.put(follows.checksum);
  return out.take();
}

struct Frame {
  uint64_t index = 0;
  uint64_t synced = 0;
  int64_t unix_us = 0;
  uint32_t length = 0;
};

Bytes framed(const Frame& frame, uint32_t checksum) {
  ByteWriter out;
  out.put(kRecordMagic);
  out.put(checksum);
  out.put(frame.index);
  out.put(frame.synced);
  out.put(frame.unix_us);
  out.put(frame.length);
  out.put(uint32_t{0});
  return out.take();
}

// Without its own four bytes.
uint32_t checksum_of(const Frame& frame, ByteSpan record, uint32_t seed) {
  return crc32c(record, crc32c(framed(frame, 0), seed));
}

size_t padding_of(size_t length) { return (kAlignment - length % kAlignment) % kAlignment; }

struct FoundRecord {
  Frame frame;
  ByteSpan bytes;
};

// The record that begins at `rest`, if it is whole and belongs here.
std::optional<FoundRecord> record_at(ByteSpan rest, uint32_t seed) {
  if (rest.size() < kFrameBytes) return std::nullopt;
  ByteReader in(rest);
  if (in.get<uint32_t>().value() != kRecordMagic) return std::nullopt;
  const uint32_t checksum = in.get<uint32_t>().value();
  Frame frame;
  frame.index = in.get<uint64_t>().value();
  frame.synced = in.get<uint64_t>().value();
  frame.unix_us = in.get<int64_t>().value();
  frame.length = in.get<uint32_t>().value();
  if (frame.length > kJournalRecordBytesMax || in.get<uint32_t>().value() != 0 ||
      in.left() < frame.length || in.left() - frame.length < padding_of(frame.length))
    return std::nullopt;
  const ByteSpan bytes = in.get_bytes(frame.length).value();
  if (checksum_of(frame, bytes, seed) != checksum) return std::nullopt;
  return FoundRecord{frame, bytes};
}

}  // namespace

Result<JournalWriter> JournalWriter::start(std::unique_ptr<AppendFile> file, SnapshotId follows) {
  Bytes bytes = beginning(follows);
  // A checksum over what ends with its own is the same for all: records begin with this one.
  const uint32_t checksum = crc32c(bytes);
  const ByteSpan tail = std::as_bytes(std::span(&checksum, 1));
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  JournalWriter writer(std::move(file), checksum);
  PACELINE_TRY(writer.file_->append(bytes));
  PACELINE_TRY(writer.file_->sync());
  writer.bytes_ = writer.synced_ = bytes.size();
  return writer;
}

Status JournalWriter::note(Status status) {
  broken_ = status;
  return status;
}

Status JournalWriter::append(ByteSpan record, int64_t unix_us) {
  if (!broken_.ok()) return broken_;
  if (record.size() > kJournalRecordBytesMax)
    return note(fail(Code::kResourceExhausted, "a record of %zu bytes, at most %zu", record.size(),
                     kJournalRecordBytesMax));
  const Frame frame{index_, synced_, unix_us, static_cast<uint32_t>(record.size())};
  Bytes bytes = framed(frame, checksum_of(frame, record, seed_));
  bytes.insert(bytes.end(), record.begin(), record.end());
  bytes.resize(bytes.size() + padding_of(record.size()));
  if (Status status = file_->append(bytes); !status.ok()) return note(std::move(status));
  ++index_;
  bytes_ += bytes.size();
  return {};
}

Status JournalWriter::sync() {
  if (!broken_.ok()) return broken_;
  if (synced()) return {};
  if (Status status = file_->sync(); !status.ok()) return note(std::move(status));
  synced_ = bytes_;
  return {};
}

Result<Journal> parse_journal(ByteSpan file) {
  ByteReader in(file);
  Journal journal;
  PACELINE_ASSIGN(const uint32_t magic, in.get<uint32_t>());
  PACELINE_ASSIGN(const uint32_t version, in.get<uint32_t>());
  PACELINE_ASSIGN(journal.follows.serial, in.get<uint64_t>());
  PACELINE_ASSIGN(journal.follows.checksum, in.get<uint32_t>());
  PACELINE_ASSIGN(const uint32_t checksum, in.get<uint32_t>());
  if (magic != kMagic || version != kVersion ||
      checksum != crc32c(file.first(kBeginningBytes - sizeof(uint32_t))))
    return fail(Code::kCorrupt, "it is no journal of version %u", kVersion);
  size_t at = kBeginningBytes;
  while (const std::optional<FoundRecord> found = record_at(file.subspan(at), checksum)) {
    if (found->frame.index != journal.records.size()) break;
    journal.records.push_back({found->bytes, found->frame.unix_us});
    at += kFrameBytes + found->bytes.size() + padding_of(found->bytes.size());
  }
  journal.whole_bytes = at;
  for (size_t later = at; later + kFrameBytes <= file.size() && !journal.damaged;
       later += kAlignment) {
    const std::optional<FoundRecord> found = record_at(file.subspan(later), checksum);
    journal.damaged = found && found->frame.synced > at;
  }
  return journal;
}

}  // namespace paceline
