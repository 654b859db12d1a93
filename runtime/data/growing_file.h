// The bytes of a file or of standard input as they come.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace paceline {

class GrowingFile {
 public:
  // path    "-": standard input
  // follow  waits at the end of the file for more
  GrowingFile(std::string path, bool follow) : path_(std::move(path)), follow_(follow) {}
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  ~GrowingFile();

  // Once, first. Errors: kNotFound, kIo.
  Status open();
  // Puts what comes next behind what is in `text`, and may wait for it; false at the end. A packed
  // file is unpacked at once. Errors: kIo; kCorrupt or kResourceExhausted for packed data.
  Result<bool> more(std::string* text);

 private:
  Result<size_t> read_some(std::string* text);
  Result<bool> unpack(std::string* text);

  std::string path_;
  bool follow_;
  int descriptor_ = -1;
  bool first_ = true;
  bool unpacked_ = false;
};

}  // namespace paceline
