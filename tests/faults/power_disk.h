// A disk of its own whose power can be cut: an ext4 image behind a loop device.
//
// What a program wrote and did not sync is in the kernel's memory and not in the image. A copy of
// the image is what would be left if the power went now; programs go on on the copy. The copy is
// taken at one instant: whoever writes there is stopped meanwhile, and it is taken again if the
// device wrote during it.
//
// Needs root, mkfs.ext4 and loop devices. Use by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace paceline::test {

class PowerDisk {
 public:
  // An empty disk of so many megabytes, mounted as FOLDER/NAME; its image lies in `image_folder`,
  // best in memory. Errors: kUnavailable, with the reason, where that can't be done.
  static Result<std::unique_ptr<PowerDisk>> make(const std::string& folder,
                                                 const std::string& image_folder,
                                                 const std::string& name, uint32_t megabytes);
  ~PowerDisk();
  PowerDisk(const PowerDisk&) = delete;
  PowerDisk& operator=(const PowerDisk&) = delete;

  // Where it is mounted.
  const std::string& path() const { return path_; }

  // Copies the image as it is now. Every program that writes there must be stopped. Errors: kIo.
  Status freeze();
  // Goes on with that copy. No program may have a file open there. Errors: kIo.
  Status restore();

  // Takes all space that is left, and gives it back. Errors: kIo.
  Status fill();
  Status free_up();

 private:
  PowerDisk(std::string path, std::string image)
      : path_(std::move(path)), image_(std::move(image)), frozen_(image_ + ".frozen") {}
  Status mount();
  Status unmount();
  // Requests that the loop device has ended; nothing while one is under way.
  Result<std::string> device_writes() const;

  const std::string path_;
  const std::string image_;
  const std::string frozen_;
  bool mounted_ = false;
};

}  // namespace paceline::test
