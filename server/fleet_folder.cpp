#include "server/fleet_folder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "runtime/base/files.h"
#include "server/new_folder.h"

namespace paceline {

namespace {

constexpr uint64_t kFileBytesMax = uint64_t{4} << 20;
constexpr size_t kAddressesMax = 16;  // a certificate is sent in every handshake

Result<std::string> read_text(const std::string& path) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(path, kFileBytesMax));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status write_text(const std::string& path, const std::string& text, FileAccess access) {
  return write_file_atomically(path, std::as_bytes(std::span(text)), access);
}

Result<Signer> make_server(const Signer& authority, const ServerHost& host, int64_t now_s) {
  PACELINE_ASSIGN(KeyPair key, make_key());
  CertificateContent content{.use = CertificateContent::Use::kServer,
                             .name = "server",
                             .host_names = {kServerName},
                             .host_addresses = host.addresses,
                             .valid_to_s = valid_to_s(now_s)};
  for (const std::string& name : host.names) content.host_names.push_back(name);
  PACELINE_ASSIGN(std::string pem, issue_certificate(content, key.public_der, authority));
  return Signer{.certificate_pem = std::move(pem), .key_pem = std::move(key.private_pem)};
}

Status write_all(const std::string& folder, const Signer& authority, const Signer& server,
                 const FleetList& list) {
  PACELINE_TRY(write_text(folder + "/authority.key", authority.key_pem, FileAccess::kOwner));
  PACELINE_TRY(
      write_text(folder + "/authority.pem", authority.certificate_pem, FileAccess::kEverybody));
  PACELINE_TRY(write_text(folder + "/server.key", server.key_pem, FileAccess::kOwner));
  PACELINE_TRY(write_text(folder + "/server.pem", server.certificate_pem, FileAccess::kEverybody));
  return write_text(folder + "/fleet.toml", fleet_text(list), FileAccess::kOwner);
}

Status system_failure(const char* action, const std::string& path) {
  return fail(Code::kIo, "%s %s: %s", action, path.c_str(), std::strerror(errno));
}

// Held by whoever changes the list.
class ListLock {
 public:
  explicit ListLock(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~ListLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ListLock(const ListLock&) = delete;
  ListLock& operator=(const ListLock&) = delete;
  // Others hold it for a few milliseconds; one that was stopped meanwhile must not stop a server.
  bool take() const {
    constexpr int kTries = 100, kPauseMs = 10;
    for (int i = 0; descriptor_ >= 0 && i < kTries; ++i) {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
      if (errno != EWOULDBLOCK) return false;
      ::poll(nullptr, 0, kPauseMs);
    }
    return false;
  }

 private:
  int descriptor_;
};

}  // namespace

ServerHost this_host() {
  ServerHost host;
  char name[64] = {};
  if (::gethostname(name, sizeof name - 1) == 0 && check_name(name).ok()) host.names = {name};
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return host;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET) {
      sockaddr_in address;
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      inet_ntop(family, &address.sin_addr, text, sizeof text);
    } else if (family == AF_INET6) {
      sockaddr_in6 address;
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      if (!IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr))
        inet_ntop(family, &address.sin6_addr, text, sizeof text);
    }
    if (text[0] != '\0' && host.addresses.size() < kAddressesMax) host.addresses.push_back(text);
  }
  ::freeifaddrs(list);
  return host;
}

Status FleetFolder::make(const std::string& folder, const ServerHost& host, int64_t now_s) {
  PACELINE_ASSIGN(const Signer authority, make_authority("paceline.fleet", valid_to_s(now_s)));
  PACELINE_ASSIGN(const Signer server, make_server(authority, host, now_s));
  return write(folder, authority, server, {});
}

Status FleetFolder::write(const std::string& folder, const Signer& authority, const Signer& server,
                          const FleetList& list) {
  return make_new_folder(folder, [&](const std::string& partial) {
    return write_all(partial, authority, server, list);
  });
}

bool FleetFolder::exists(const std::string& folder) {
  struct stat found {};
  return ::lstat(folder.c_str(), &found) == 0;
}

Result<FleetFolder> FleetFolder::open(const std::string& folder) {
  FleetFolder opened;
  opened.path_ = folder;
  const struct {
    const char* name;
    std::string* text;
  } files[] = {{"authority.pem", &opened.authority_.certificate_pem},
               {"authority.key", &opened.authority_.key_pem},
               {"server.pem", &opened.server_.certificate_pem},
               {"server.key", &opened.server_.key_pem}};
  for (const auto& file : files) {
    Result<std::string> text = read_text(folder + "/" + file.name);
    if (!text)
      return fail(text.error().code(), "%s; make a fleet with: edge_server init %s",
                  text.error().message().c_str(), folder.c_str());
    *file.text = std::move(*text);
  }
  const Status whole = check_certificate(opened.server_.certificate_pem,
                                         opened.authority_.certificate_pem, opened.server_.key_pem);
  if (!whole.ok())
    return fail(whole.code(), "%s: %s; restore it from a backup", folder.c_str(),
                whole.message().c_str());
  PACELINE_TRY(opened.read().has_value() ? Status() : opened.read().error());
  return opened;
}

TlsOptions FleetFolder::server_tls() const {
  return {.certificate = server_.certificate_pem,
          .key = server_.key_pem,
          .authority = authority_.certificate_pem,
          .server_name = {}};
}

Result<FleetList> FleetFolder::read() const {
  const std::string path = path_ + "/fleet.toml";
  PACELINE_ASSIGN(const std::string text, read_text(path));
  return parse_fleet(text, path);
}

bool FleetFolder::changed() {
  struct stat found {};
  if (::stat((path_ + "/fleet.toml").c_str(), &found) != 0) return false;
  // A rename makes another inode even within one tick of the clock.
  std::string now = format_text(
      "%llu %lld %lld.%09ld", static_cast<unsigned long long>(found.st_ino),
      static_cast<long long>(found.st_size), static_cast<long long>(found.st_mtim.tv_sec),
      static_cast<long>(found.st_mtim.tv_nsec));
  if (now == seen_) return false;
  seen_ = std::move(now);
  return true;
}

Status FleetFolder::update(const std::function<Status(FleetList*)>& change) const {
  const ListLock lock(path_ + "/lock");
  if (!lock.take()) return system_failure("lock", path_ + "/lock");
  PACELINE_ASSIGN(FleetList fleet, read());
  const FleetList before = fleet;
  const Status done = change(&fleet);
  if (fleet != before)
    PACELINE_TRY(write_text(path_ + "/fleet.toml", fleet_text(fleet), FileAccess::kOwner));
  return done;
}

}  // namespace paceline
