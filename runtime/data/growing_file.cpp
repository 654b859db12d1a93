#include "runtime/data/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/data/gzip.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

constexpr uint64_t kDataBytesMax = uint64_t{1} << 30;  // unpacked at once
constexpr size_t kReadBytes = 64 * 1024;
constexpr std::chrono::milliseconds kFollowEvery(200);

}  // namespace

GrowingFile::~GrowingFile() {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
}

Status GrowingFile::open() {
  if (path_ == "-") {
    descriptor_ = STDIN_FILENO;
    return {};
  }
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    return fail(errno == ENOENT ? Code::kNotFound : Code::kIo, "open %s: %s", path_.c_str(),
                std::strerror(errno));
  return {};
}

Result<bool> GrowingFile::more(std::string* text) {
  for (;;) {
    PACELINE_ASSIGN(const size_t count, read_some(text));
    if (first_ && count > 0) {
      first_ = false;
      if (is_gzip(std::as_bytes(std::span(*text)))) return unpack(text);
    }
    if (count > 0) return true;
    if (!follow_ || unpacked_) return false;
    std::this_thread::sleep_for(kFollowEvery);
  }
}

Result<size_t> GrowingFile::read_some(std::string* text) {
  if (unpacked_) return size_t{0};
  const size_t before = text->size();
  text->resize(before + kReadBytes);
  ssize_t count = 0;
  do count = ::read(descriptor_, text->data() + before, kReadBytes);
  while (count < 0 && errno == EINTR);
  const int reason = errno;
  text->resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) return fail(Code::kIo, "read %s: %s", path_.c_str(), std::strerror(reason));
  return static_cast<size_t>(count);
}

// Packed data has an end: all of it at once.
Result<bool> GrowingFile::unpack(std::string* text) {
  for (;;) {
    PACELINE_ASSIGN(const size_t count, read_some(text));
    if (count == 0) break;
    if (text->size() > kDataBytesMax)
      return fail(Code::kResourceExhausted, "%s: too large", path_.c_str());
  }
  Result<Bytes> content = gunzip(std::as_bytes(std::span(*text)), kDataBytesMax);
  if (!content) return fail_in_file(path_, content.error());
  text->assign(reinterpret_cast<const char*>(content->data()), content->size());
  unpacked_ = true;
  return true;
}

}  // namespace paceline
