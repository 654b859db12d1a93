#include "runtime/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace paceline {

namespace {

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  // A network file system may report a failed write only here.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

tl::unexpected<Status> system_error(const char* action, const std::string& path) {
  const int reason = errno;
  const Code code = reason == ENOENT || reason == ENOTDIR ? Code::kNotFound : Code::kIo;
  return fail(code, "%s %s: %s", action, path.c_str(), std::strerror(reason));
}

bool write_all(int descriptor, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

Status write_and_sync(const std::string& path, ByteSpan bytes, FileAccess access) {
  const mode_t mode = access == FileAccess::kOwner ? 0600 : 0666;
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  if (file.get() < 0) return system_error("create", path);
  // One that was left behind keeps its mode.
  if (access == FileAccess::kOwner && ::fchmod(file.get(), mode) != 0)
    return system_error("protect", path);
  if (!write_all(file.get(), bytes)) return system_error("write", path);
  if (::fsync(file.get()) != 0) return system_error("sync", path);
  if (!file.close()) return system_error("close", path);
  return Status();
}

}  // namespace

Status sync_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) return system_error("open folder", folder);
  // Some file systems have no sync for folders and say EINVAL: nothing more can be done there.
  if (::fsync(file.get()) != 0 && errno != EINVAL) return system_error("sync folder", folder);
  return Status();
}

Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error("open", path);
  struct stat attributes {};
  if (::fstat(file.get(), &attributes) != 0) return system_error("read", path);
  const uint64_t expected = attributes.st_size > 0 ? static_cast<uint64_t>(attributes.st_size) : 0;
  const auto too_large = [&] {
    return fail(Code::kResourceExhausted, "read %s: larger than the limit of %llu bytes",
                path.c_str(), static_cast<unsigned long long>(bytes_max));
  };
  if (S_ISREG(attributes.st_mode) && expected > bytes_max) return too_large();

  // One byte more than expected, so that the end of an ordinary file is seen without growing.
  constexpr uint64_t kPipeBytes = 64 * 1024;
  Bytes bytes(static_cast<size_t>(std::max(std::min(expected, bytes_max) + 1, kPipeBytes)));
  size_t used = 0;
  for (;;) {
    if (used == bytes.size())
      bytes.resize(used + static_cast<size_t>(std::min<uint64_t>(used, bytes_max - used)) + 1);
    const ssize_t count = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read", path);
    if (count == 0) break;
    used += static_cast<size_t>(count);
    if (used > bytes_max) return too_large();
  }
  bytes.resize(used);
  return bytes;
}

Status write_file_atomically(const std::string& path, ByteSpan bytes, FileAccess access) {
  const std::string partial = path + ".partial";
  if (Status status = write_and_sync(partial, bytes, access); !status.ok()) {
    ::unlink(partial.c_str());
    return status;
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    const Status status = system_error("rename to", path);
    ::unlink(partial.c_str());
    return status;
  }
  return sync_folder(path);
}

}  // namespace paceline
