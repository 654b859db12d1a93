#include "runtime/trust/credentials.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "runtime/base/config.h"
#include "runtime/base/files.h"
#include "runtime/trust/certificate.h"

namespace paceline {

namespace {

constexpr uint64_t kFileBytesMax = 64 * 1024;

Result<std::string> read_text(const std::string& path) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(path, kFileBytesMax));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status write_text(const std::string& path, const std::string& text, FileAccess access) {
  return write_file_atomically(path, std::as_bytes(std::span(text)), access);
}

}  // namespace

Result<std::string> default_credentials_folder() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] == '\0')
    return fail(Code::kNotFound, "there is no home folder; name one with --state FOLDER");
  return std::string(home) + "/.paceline";
}

Result<std::optional<Credentials>> load_credentials(const std::string& folder) {
  Result<std::string> text = read_text(folder + "/fleet.toml");
  if (!text && text.error().code() == Code::kNotFound) return std::optional<Credentials>();
  if (!text) return fail(text.error());
  PACELINE_ASSIGN(const Config config, Config::parse(*text, folder + "/fleet.toml"));
  Credentials found;
  ConfigSection fleet = config.section("fleet");
  fleet.read("name", &found.name);
  fleet.read("server", &found.server);
  fleet.read("server_name", &found.server_name);
  PACELINE_TRY(fleet.finish());
  PACELINE_ASSIGN(found.key, read_text(folder + "/key.pem"));
  PACELINE_ASSIGN(found.certificate, read_text(folder + "/certificate.pem"));
  PACELINE_ASSIGN(found.authority, read_text(folder + "/authority.pem"));
  const Status whole = check_certificate(found.certificate, found.authority, found.key);
  if (!whole.ok())
    return fail(whole.code(), "%s: %s; join the fleet again", folder.c_str(),
                whole.message().c_str());
  return found;
}

Status save_credentials(const std::string& folder, const Credentials& credentials) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Code::kIo, "make folder %s: %s", folder.c_str(), std::strerror(errno));
  PACELINE_TRY(write_text(folder + "/key.pem", credentials.key, FileAccess::kOwner));
  PACELINE_TRY(
      write_text(folder + "/certificate.pem", credentials.certificate, FileAccess::kEverybody));
  PACELINE_TRY(
      write_text(folder + "/authority.pem", credentials.authority, FileAccess::kEverybody));
  return write_text(folder + "/fleet.toml",
                    format_text("# Who this board is in its fleet; edge_worker join wrote it.\n"
                                "[fleet]\nname = \"%s\"\nserver = \"%s\"\nserver_name = \"%s\"\n",
                                credentials.name.c_str(), credentials.server.c_str(),
                                credentials.server_name.c_str()),
                    FileAccess::kEverybody);
}

}  // namespace paceline
