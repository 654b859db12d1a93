// Whole files, read with a bound and written so that a power cut leaves the old one or the new one.
//
// Errors name the path and the system's reason.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

// Who may read a new file: whoever the process's umask lets, or its owner alone (mode 0600).
enum class FileAccess { kEverybody, kOwner };

// The bytes of `path`, which may also be a pipe. The size that the system reports is only a hint:
// what arrives is counted. Errors: kNotFound; kResourceExhausted above `bytes_max`, before more
// than that is held; kIo.
Result<Bytes> read_file(const std::string& path, uint64_t bytes_max);

// Makes a name that was put into the folder of `path` survive a power cut. Errors: kIo, kNotFound.
Status sync_folder(const std::string& path);

// Replaces `path` by a file with `bytes`: written to `path`.partial, synced, renamed, folder
// synced. When it returns ok the file survives power loss; when it fails the old file is as it was.
// The caller keeps two writers of one path apart. Errors: kNotFound where the folder is missing;
// kIo.
Status write_file_atomically(const std::string& path, ByteSpan bytes,
                             FileAccess access = FileAccess::kEverybody);

}  // namespace paceline
