#include "runtime/base/journal.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/support/memory_file.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::MemoryDisk;
using test::MemoryFile;

namespace {

constexpr SnapshotId kFollows{7, 0x12345678};

// Records of 0 to 40 random bytes, and where each ends in the file; every third is synced.
struct Written {
  MemoryDisk disk;
  std::vector<Bytes> records;
  std::vector<size_t> ends;
};

Written write_journal(size_t count, SnapshotId follows = kFollows, uint64_t stream = 1) {
  Written written;
  Random random(test::seed(), stream);
  JournalWriter writer =
      JournalWriter::start(std::make_unique<MemoryFile>(&written.disk), follows).value();
  for (size_t i = 0; i < count; ++i) {
    Bytes record(static_cast<size_t>(random.below(41)));
    for (std::byte& byte : record) byte = static_cast<std::byte>(random.below(256));
    REQUIRE(writer.append(record, static_cast<int64_t>(i)).ok());
    if (i % 3 == 2) REQUIRE(writer.sync().ok());
    written.records.push_back(std::move(record));
    written.ends.push_back(written.disk.bytes.size());
  }
  return written;
}

size_t whole_before(const Written& written, size_t bytes) {
  size_t count = 0;
  while (count < written.ends.size() && written.ends[count] <= bytes) ++count;
  return count;
}

bool begins_with(const Journal& journal, const Written& written, size_t count) {
  if (journal.records.size() != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (!std::ranges::equal(journal.records[i].bytes, written.records[i]) ||
        journal.records[i].unix_us != static_cast<int64_t>(i))
      return false;
  return true;
}

}  // namespace

TEST_SUITE("base/journal") {
  TEST_CASE("cut at any byte it gives the records that are whole, and is not called damaged") {
    const Written written = write_journal(12);
    for (size_t length = 0; length <= written.disk.bytes.size(); ++length) {
      const Result<Journal> journal = parse_journal(ByteSpan(written.disk.bytes).first(length));
      if (!journal) {
        CHECK(length < 24);
        CHECK(journal.error().code() == Code::kCorrupt);
        continue;
      }
      CHECK(journal->follows == kFollows);
      CHECK(begins_with(*journal, written, whole_before(written, length)));
      CHECK_FALSE(journal->damaged);
    }
  }

  TEST_CASE("a changed byte ends what is read; damage to what was synced is seen by what follows") {
    const Written written = write_journal(9);
    const Bytes& whole = written.disk.bytes;
    for (size_t at = 0; at < whole.size(); ++at) {
      Bytes changed = whole;
      changed[at] ^= static_cast<std::byte>(1u << (at % 8));
      const Result<Journal> journal = parse_journal(changed);
      if (at < 24) {
        CHECK_FALSE(journal.has_value());
        continue;
      }
      const size_t before = whole_before(written, at);
      // A byte of padding belongs to nothing.
      if (journal->records.size() == written.records.size()) continue;
      CHECK(begins_with(*journal, written, before));
      // Records 0 to 5 were synced when 6 was written.
      CHECK(journal->damaged == (before < 6));
    }
  }

  TEST_CASE("a record of another journal, or of another place, is none") {
    const Written one = write_journal(3);
    const Written other = write_journal(3, {8, 0x12345678}, 2);
    for (const bool same_file : {true, false}) {
      Bytes mixed(one.disk.bytes.begin(),
                  one.disk.bytes.begin() + static_cast<std::ptrdiff_t>(one.ends[1]));
      const Written& source = same_file ? one : other;
      const size_t from = source.ends[same_file ? 0 : 1];
      mixed.insert(mixed.end(), source.disk.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                   source.disk.bytes.end());
      CHECK(begins_with(parse_journal(mixed).value(), one, 2));
    }
  }

  TEST_CASE("what is not synced may be lost, what is synced is not; a failure is final") {
    for (const bool half : {false, true})
      for (uint32_t calls = 0; calls < 12; ++calls) {
        MemoryDisk disk;
        disk.fail_after = calls;
        disk.fails_half_way = half;
        Result<JournalWriter> writer =
            JournalWriter::start(std::make_unique<MemoryFile>(&disk), kFollows);
        size_t synced = 0, written = 0;
        for (; writer && written < 6; ++written) {
          const Bytes record(20, static_cast<std::byte>(written));
          if (!writer->append(record, 0).ok() || !writer->sync().ok()) break;
          synced = written + 1;
        }
        CHECK((writer.has_value() == (calls >= 2)));
        if (!writer) continue;
        disk.fail_after = 100;
        CHECK(writer->append(Bytes(4), 0).ok() == (synced == 6));
        CHECK(writer->sync().ok() == (synced == 6));
        for (const double share : {0.0, 0.5, 1.0}) {
          const Bytes left = disk.after_cut(share);
          CHECK(parse_journal(left)->records.size() >= synced);
          CHECK_FALSE(parse_journal(left)->damaged);
        }
      }
  }

  TEST_CASE("any bytes are an error or a journal, never a crash") {
    const Written written = write_journal(4);
    Random random(test::seed(), 5);
    for (int i = 0; i < 5'000; ++i) {
      Bytes bytes = written.disk.bytes;
      for (uint64_t changes = 1 + random.below(4); changes > 0; --changes)
        bytes[static_cast<size_t>(random.below(bytes.size()))] =
            static_cast<std::byte>(random.below(256));
      bytes.resize(static_cast<size_t>(random.below(bytes.size() + 1)));
      if (const Result<Journal> journal = parse_journal(bytes))
        CHECK(journal->records.size() <= written.records.size());
    }
  }
}
