// A small run, rows for it, and what is read from the logs of its programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace paceline::test {

// An 8-16-3 net on three overlapping clouds of points: a step takes less than a millisecond.
struct RunText {
  std::string pace = "compat";
  std::string freq = "fixed:4";
  std::string codec_up = "s1r";
  std::string codec_down = "s1r";
  uint32_t hidden = 16;
  uint32_t min_workers = 1;
  uint32_t heartbeat_ms = 200;
  uint32_t exchange_deadline_ms = 5'000;
  uint32_t checkpoint_ms = 100;
  std::string text() const;
};

// A CSV of rows from those clouds, other ones for every name.
std::string cloud_rows(const std::string& name, uint32_t rows);

// publication -> checksum, from the debug lines "publication N checksum XXXXXXXX" of a log; the
// later one where a rollback led to the same number again.
std::map<uint64_t, std::string> checksums_of(const std::string& log);

// From the last line of a program that ended in order: "publication N, checksum XXXXXXXX".
std::string last_model(const std::string& log);

// The newest publication that the log of a server names; 0: none.
uint64_t newest_publication(const std::string& log);

}  // namespace paceline::test
