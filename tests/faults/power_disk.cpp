#include "tests/faults/power_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/system/process.h"

namespace paceline::test {

namespace fs = std::filesystem;

namespace {

constexpr int kTriesMax = 200;

Status run(const std::string& log, const std::vector<std::string>& words) {
  Finished finished = run_program({words.front(), {words.begin() + 1, words.end()}, log});
  if (finished.exit == 0) return {};
  std::string said = finished.err.substr(0, finished.err.find('\n'));
  return fail(Code::kIo, "%s: exit code %d, %s", words.front().c_str(), finished.exit,
              said.c_str());
}

}  // namespace

Result<std::unique_ptr<PowerDisk>> PowerDisk::make(const std::string& folder,
                                                   const std::string& image_folder,
                                                   const std::string& name, uint32_t megabytes) {
  if (geteuid() != 0) return fail(Code::kUnavailable, "only root may mount a disk image");
  if (access("/sbin/mkfs.ext4", X_OK) != 0)
    return fail(Code::kUnavailable, "mkfs.ext4 is missing (package e2fsprogs)");
  std::unique_ptr<PowerDisk> disk(
      new PowerDisk(folder + "/" + name, image_folder + "/" + name + ".img"));
  std::error_code error;
  fs::create_directories(disk->path_, error);
  std::ofstream(disk->image_).close();
  fs::resize_file(disk->image_, uint64_t{megabytes} << 20, error);
  if (error) return fail(Code::kIo, "%s: %s", disk->image_.c_str(), error.message().c_str());
  const Status made = run(disk->image_, {"/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-E",
                                         "lazy_itable_init=0,lazy_journal_init=0", disk->image_});
  if (!made.ok()) return fail(Code::kUnavailable, "%s", made.message().c_str());
  if (Status mounted = disk->mount(); !mounted.ok())
    return fail(Code::kUnavailable, "%s", mounted.message().c_str());
  return disk;
}

PowerDisk::~PowerDisk() {
  if (mounted_) static_cast<void>(unmount());
  std::error_code ignored;
  for (const std::string& path : {image_, frozen_}) fs::remove(path, ignored);
}

Status PowerDisk::mount() {
  const Status status = run(image_, {"/bin/mount", "-o", "loop", image_, path_});
  mounted_ = status.ok();
  return status;
}

Status PowerDisk::unmount() {
  Status status;
  // The kernel may still be at work on the files of a process that was just killed.
  for (int i = 0; i < kTriesMax; ++i) {
    status = run(image_, {"/bin/umount", path_});
    mounted_ = !status.ok();
    if (!mounted_) break;
    usleep(20'000);
  }
  return status;
}

Result<std::string> PowerDisk::device_writes() const {
  struct stat about {};
  if (stat(path_.c_str(), &about) != 0) return fail(Code::kIo, "%s is gone", path_.c_str());
  // Documentation/block/stat.rst: reads 4, writes 4, in flight, ...
  std::ifstream file(
      format_text("/sys/dev/block/%u:%u/stat", major(about.st_dev), minor(about.st_dev)));
  std::string words[9];
  for (std::string& word : words) file >> word;
  if (!file)
    return fail(Code::kIo, "the loop device of %s does not tell its writes", path_.c_str());
  return words[8] == "0" ? words[4] + " " + words[6] : std::string();
}

Status PowerDisk::freeze() {
  for (int i = 0; i < kTriesMax; ++i) {
    PACELINE_ASSIGN(const std::string before, device_writes());
    if (!before.empty()) {
      std::error_code error;
      fs::copy_file(image_, frozen_, fs::copy_options::overwrite_existing, error);
      if (error) return fail(Code::kIo, "%s: %s", frozen_.c_str(), error.message().c_str());
      PACELINE_ASSIGN(const std::string after, device_writes());
      if (after == before) return {};
    }
    usleep(5'000);
  }
  return fail(Code::kIo, "%s is never quiet", image_.c_str());
}

Status PowerDisk::restore() {
  PACELINE_TRY(unmount());
  std::error_code error;
  fs::rename(frozen_, image_, error);
  if (error) return fail(Code::kIo, "%s: %s", frozen_.c_str(), error.message().c_str());
  return mount();
}

Status PowerDisk::fill() {
  const int file = open((path_ + "/filling").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return fail(Code::kIo, "%s: %s", path_.c_str(), std::strerror(errno));
  // Down to the last block.
  for (size_t bytes = size_t{1} << 20; bytes >= 1024; bytes /= 2) {
    const std::string zeros(bytes, '\0');
    while (write(file, zeros.data(), zeros.size()) > 0) {
    }
  }
  fsync(file);
  close(file);
  return {};
}

Status PowerDisk::free_up() {
  if (unlink((path_ + "/filling").c_str()) != 0 && errno != ENOENT)
    return fail(Code::kIo, "%s: %s", path_.c_str(), std::strerror(errno));
  // What is free in a transaction that is not committed yet can't be used.
  const int folder = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    syncfs(folder);
    close(folder);
  }
  return {};
}

}  // namespace paceline::test
