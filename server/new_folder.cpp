#include "server/new_folder.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/base/files.h"

namespace paceline {

Status make_new_folder(const std::string& to,
                       const std::function<Status(const std::string& folder)>& fill) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(to, ignored)))
    return fail(Code::kInvalidArgument,
                "%s is there already and is never overwritten; choose another folder, or move it "
                "away",
                to.c_str());
  std::string partial = to + ".XXXXXX";
  if (::mkdtemp(partial.data()) == nullptr)
    return fail(Code::kIo, "make a folder beside %s: %s", to.c_str(), std::strerror(errno));
  Status status = fill(partial);
  if (status.ok() && std::rename(partial.c_str(), to.c_str()) != 0)
    status = fail(Code::kIo, "rename to %s: %s", to.c_str(), std::strerror(errno));
  if (status.ok()) status = sync_folder(to);
  if (!status.ok()) std::filesystem::remove_all(partial, ignored);
  return status;
}

}  // namespace paceline
