#include "runtime/base/state_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "runtime/base/log.h"

namespace paceline {

namespace {

// The file: magic, version, serial, exact, length, CRC-32C over all of these (with crc = 0) and the
// state.
constexpr uint32_t kMagic = 0x4B4C4350;  // "PCLK"; for ever
constexpr uint32_t kVersion = 1;
// A server holds two flat vectors; a worker two and a pending update.
constexpr uint64_t kStateBytesMax = 3 * kModelElementsMax * sizeof(float) + (uint64_t{64} << 20);

Bytes header(uint64_t serial, bool exact, uint64_t length, uint32_t checksum) {
  ByteWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put(serial);
  out.put(static_cast<uint32_t>(exact));
  out.put(length);
  out.put(checksum);
  return out.take();
}

Result<StateStore::Found> parse(const Bytes& bytes) {
  ByteReader in(bytes);
  StateStore::Found file;
  PACELINE_ASSIGN(const uint32_t magic, in.get<uint32_t>());
  PACELINE_ASSIGN(const uint32_t version, in.get<uint32_t>());
  PACELINE_ASSIGN(file.serial, in.get<uint64_t>());
  PACELINE_ASSIGN(const uint32_t exact, in.get<uint32_t>());
  PACELINE_ASSIGN(const uint64_t length, in.get<uint64_t>());
  PACELINE_ASSIGN(const uint32_t checksum, in.get<uint32_t>());
  if (magic != kMagic || version != kVersion || exact > 1)
    return fail(Code::kCorrupt, "it is no state file of version %u", kVersion);
  if (length != in.left())
    return fail(Code::kCorrupt, "%zu bytes of state, its header says %llu", in.left(),
                static_cast<unsigned long long>(length));
  PACELINE_ASSIGN(const ByteSpan state, in.get_bytes(in.left()));
  const uint32_t sum = crc32c(state, crc32c(header(file.serial, exact == 1, length, 0)));
  if (sum != checksum) return fail(Code::kCorrupt, "its checksum is %08x, not %08x", sum, checksum);
  file.state.assign(state.begin(), state.end());
  file.exact = exact == 1;
  return file;
}

// Says what is wrong with a file and gets it out of the way.
void put_aside(const std::string& path, const char* why) {
  const std::string aside = path + ".bad";
  if (std::rename(path.c_str(), aside.c_str()) == 0)
    log_error("%s: %s; set aside as %s", path.c_str(), why, aside.c_str());
  else
    log_error("%s: %s; it can't be set aside: %s", path.c_str(), why, std::strerror(errno));
}

}  // namespace

Result<StateStore> StateStore::open(const std::string& folder, const std::string& name) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Code::kIo, "%s: %s", folder.c_str(), std::strerror(errno));
  const std::string lock_path = folder + "/lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return fail(Code::kIo, "%s: %s", lock_path.c_str(), std::strerror(errno));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return fail(Code::kUnavailable,
                "%s: another program uses this folder; stop it or give another one",
                folder.c_str());
  }
  return StateStore(folder, name, lock);
}

StateStore::StateStore(StateStore&& other) noexcept
    : folder_(std::move(other.folder_)),
      name_(std::move(other.name_)),
      lock_(std::exchange(other.lock_, -1)),
      serial_(other.serial_),
      newest_(other.newest_),
      older_(other.older_) {}

StateStore& StateStore::operator=(StateStore&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(name_, other.name_);
  std::swap(lock_, other.lock_);
  std::swap(serial_, other.serial_);
  std::swap(newest_, other.newest_);
  std::swap(older_, other.older_);
  return *this;
}

StateStore::~StateStore() {
  if (lock_ >= 0) close(lock_);
}

std::string StateStore::path(uint64_t serial) const {
  return folder_ + "/" + name_ + (serial % 2 == 0 ? ".a" : ".b");
}

Result<StateStore::Found> StateStore::read(const std::string& path) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(path, kStateBytesMax));
  Result<Found> found = parse(bytes);
  if (!found)
    return fail(found.error().code(), "%s: %s", path.c_str(), found.error().message().c_str());
  return found;
}

Result<std::optional<StateStore::Found>> StateStore::load() {
  std::optional<Found> newest;
  bool broken = false;
  for (uint64_t slot = 0; slot < 2; ++slot) {
    const std::string file_path = path(slot);
    Result<Bytes> bytes = read_file(file_path, kStateBytesMax);
    if (!bytes) {
      if (bytes.error().code() == Code::kNotFound) continue;
      return fail(std::move(bytes).error());
    }
    Result<Found> file = parse(*bytes);
    if (!file) {
      broken = true;
      put_aside(file_path, file.error().message().c_str());
    } else if (!newest || file->serial > newest->serial) {
      older_ = newest ? newest->serial : 0;
      newest = std::move(*file);
    } else {
      older_ = file->serial;
    }
  }
  if (!newest && broken) return fail(Code::kCorrupt, "%s: no whole state is left", folder_.c_str());
  if (!newest) return std::optional<Found>();
  serial_ = newest_ = newest->serial;
  return newest;
}

Status StateStore::save(ByteSpan state, bool exact) {
  const uint64_t serial = serial_ + 1;
  const uint32_t sum = crc32c(state, crc32c(header(serial, exact, state.size(), 0)));
  Bytes bytes = header(serial, exact, state.size(), sum);
  bytes.insert(bytes.end(), state.begin(), state.end());
  PACELINE_TRY(write_file_atomically(path(serial), bytes));
  older_ = newest_;
  serial_ = newest_ = serial;
  return {};
}

void StateStore::set_aside(const char* why) {
  for (uint64_t slot = 0; slot < 2; ++slot)
    if (access(path(slot).c_str(), F_OK) == 0) put_aside(path(slot), why);
}

}  // namespace paceline
