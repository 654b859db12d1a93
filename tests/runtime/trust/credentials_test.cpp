#include "runtime/trust/credentials.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/support/temp_folder.h"
#include "tests/support/tls_fleet.h"

namespace paceline::test {
namespace {

Credentials credentials_of(const TlsOptions& tls) {
  return {.name = "greenhouse",
          .server = "tls+tcp://192.0.2.7:7433",
          .server_name = tls.server_name,
          .key = tls.key,
          .certificate = tls.certificate,
          .authority = tls.authority};
}

mode_t mode_of(const std::string& path) {
  struct stat found {};
  REQUIRE(stat(path.c_str(), &found) == 0);
  return found.st_mode & 0777;
}

TEST_SUITE_BEGIN("trust/credentials");

TEST_CASE("what was saved is loaded, and nobody else can read the key") {
  const TempFolder folder;
  const Credentials saved = credentials_of(TlsFleet().worker("greenhouse"));
  const std::string path = folder.file("state");
  // Even where an earlier try left a file that everybody may read.
  REQUIRE(mkdir(path.c_str(), 0700) == 0);
  folder.write("state/key.pem.partial", std::string_view("old"));
  chmod(folder.file("state/key.pem.partial").c_str(), 0666);
  REQUIRE(save_credentials(path, saved).ok());
  CHECK(mode_of(path + "/key.pem") == 0600);
  const auto loaded = load_credentials(path);
  REQUIRE(loaded);
  REQUIRE(loaded->has_value());
  CHECK((*loaded)->name == saved.name);
  CHECK((*loaded)->server == saved.server);
  CHECK((*loaded)->server_name == saved.server_name);
  CHECK((*loaded)->key == saved.key);
  CHECK((*loaded)->certificate == saved.certificate);
  CHECK((*loaded)->authority == saved.authority);
}

TEST_CASE("a folder without fleet.toml has none, and one that is not whole says what is wrong") {
  const TempFolder folder;
  CHECK_FALSE(load_credentials(folder.file("missing"))->has_value());
  const TlsFleet fleet;
  Credentials mixed = credentials_of(fleet.worker("greenhouse"));
  mixed.key = fleet.worker("greenhouse").key;
  REQUIRE(save_credentials(folder.file("mixed"), mixed).ok());
  const auto loaded = load_credentials(folder.file("mixed"));
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().message().find(folder.file("mixed")) == 0);
  CHECK(loaded.error().message().find("join the fleet again") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
