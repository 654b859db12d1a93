#include "runtime/base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/files.h"

namespace paceline {

namespace {

class SystemFile final : public AppendFile {
 public:
  SystemFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~SystemFile() override { ::close(descriptor_); }

  Status append(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return error("write");
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }
  Status sync() override { return ::fdatasync(descriptor_) == 0 ? Status() : error("sync"); }

 private:
  Status error(const char* action) const {
    return fail(errno == ENOSPC || errno == EDQUOT ? Code::kResourceExhausted : Code::kIo,
                "%s %s: %s", action, path_.c_str(), std::strerror(errno));
  }

  std::string path_;
  int descriptor_;
};

}  // namespace

Result<std::unique_ptr<AppendFile>> create_append_file(const std::string& path) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return fail(errno == ENOENT || errno == ENOTDIR ? Code::kNotFound : Code::kIo, "create %s: %s",
                path.c_str(), std::strerror(errno));
  auto file = std::make_unique<SystemFile>(path, descriptor);
  PACELINE_TRY(sync_folder(path));
  return file;
}

}  // namespace paceline
