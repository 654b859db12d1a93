// A disk for one growing file, as a power cut sees it: what was not synced may be gone, in part or
// whole.
#pragma once

#include <algorithm>
#include <memory>

#include "runtime/base/append_file.h"

namespace paceline::test {

struct MemoryDisk {
  Bytes bytes;
  size_t synced = 0;
  uint32_t fail_after = UINT32_MAX;  // calls that still succeed
  bool fails_half_way = false;       // a failed append leaves half of its bytes

  // What a cut leaves that spares `share` of the unsynced bytes.
  Bytes after_cut(double share) const {
    const auto spared = static_cast<size_t>(share * static_cast<double>(bytes.size() - synced));
    return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(synced + spared));
  }
};

class MemoryFile final : public AppendFile {
 public:
  explicit MemoryFile(MemoryDisk* disk) : disk_(*disk) {}
  Status append(ByteSpan bytes) override {
    if (disk_.fail_after == 0) {
      if (disk_.fails_half_way) bytes = bytes.first(bytes.size() / 2);
      if (disk_.fails_half_way) disk_.bytes.insert(disk_.bytes.end(), bytes.begin(), bytes.end());
      return fail(Code::kResourceExhausted, "no space left");
    }
    --disk_.fail_after;
    disk_.bytes.insert(disk_.bytes.end(), bytes.begin(), bytes.end());
    return {};
  }
  Status sync() override {
    if (disk_.fail_after == 0) return fail(Code::kIo, "the disk is broken");
    --disk_.fail_after;
    disk_.synced = disk_.bytes.size();
    return {};
  }

 private:
  MemoryDisk& disk_;
};

}  // namespace paceline::test
