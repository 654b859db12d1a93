// A file that only grows, and whose bytes are certain to survive a power cut only after sync().
//
// An interface, so that a test can lose what was not synced and fail at any call.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

class AppendFile {
 public:
  virtual ~AppendFile() = default;
  // Behind what is there. After an error part of `bytes` may be in the file.
  virtual Status append(ByteSpan bytes) = 0;
  // After an error nobody knows which of the bytes since the last sync survive, and the system may
  // say ok to the next one all the same: the file is not to be used any more.
  virtual Status sync() = 0;
};

// An empty file at `path`, whose name survives a power cut; what was there is gone.
// Errors: kIo, kNotFound where the folder is missing.
Result<std::unique_ptr<AppendFile>> create_append_file(const std::string& path);

}  // namespace paceline
