#include "server/fleet_list.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "runtime/base/files.h"
#include "server/fleet_folder.h"
#include "tests/support/temp_folder.h"

namespace paceline::test {
namespace {

constexpr int64_t kNowS = 1'796'000'000;

Hash hash_of(char letter) { return sha256(std::as_bytes(std::span(&letter, 1))); }
std::string key_of(char letter) { return to_hex(hash_of(letter)); }

FleetList fleet_of_two() {
  FleetList fleet;
  fleet.enlist({"barn", key_of('b'), "01", kNowS, 0});
  fleet.enlist({"shed", key_of('s'), "02", kNowS, 0});
  return fleet;
}

bool says(const Status& status, const char* words) {
  return status.message().find(words) != std::string::npos;
}

TEST_SUITE_BEGIN("server/fleet_list");

TEST_CASE("only a listed name with its own key may work, and the others are told why") {
  FleetList fleet = fleet_of_two();
  CHECK(fleet.admit("barn", key_of('b')).ok());
  CHECK(says(fleet.admit("barn", key_of('s')), "has another key by now"));
  CHECK(says(fleet.admit("hall", key_of('b')), "is not on the fleet's list"));
  CHECK(says(fleet.admit("barn", ""), "has another key by now"));
  REQUIRE(fleet.revoke("barn", kNowS + 1).ok());
  CHECK(says(fleet.admit("barn", key_of('b')), "'barn' is revoked"));
  CHECK(fleet.revoke("barn", kNowS + 2).code() == Code::kInvalidArgument);
  CHECK(says(fleet.revoke("sheds", kNowS), "did you mean 'shed'"));
  // Enrolled again, it works again, with its new key only.
  fleet.enlist({"barn", key_of('n'), "03", kNowS + 3, 0});
  CHECK(fleet.admit("barn", key_of('n')).ok());
  CHECK_FALSE(fleet.admit("barn", key_of('b')).ok());
}

TEST_CASE("a secret is good for one board, fifteen minutes and five tries in all") {
  FleetList fleet;
  fleet.open_enrolment("barn", hash_of('x'), kNowS);
  CHECK(fleet.awaits(kNowS));
  CHECK(*fleet.use_secret(hash_of('x'), kNowS + kEnrolmentLifeS - 1) == "barn");
  CHECK_FALSE(fleet.use_secret(hash_of('x'), kNowS));
  CHECK_FALSE(fleet.awaits(kNowS));

  fleet.open_enrolment("barn", hash_of('x'), kNowS);
  CHECK_FALSE(fleet.awaits(kNowS + kEnrolmentLifeS));
  CHECK_FALSE(fleet.use_secret(hash_of('x'), kNowS + kEnrolmentLifeS));

  fleet.open_enrolment("barn", hash_of('x'), kNowS);
  for (int i = 0; i < 4; ++i) CHECK_FALSE(fleet.use_secret(hash_of('w'), kNowS));
  FleetList four_tries_later = fleet;
  CHECK(four_tries_later.use_secret(hash_of('x'), kNowS));
  CHECK_FALSE(fleet.use_secret(hash_of('w'), kNowS));
  CHECK_FALSE(fleet.use_secret(hash_of('x'), kNowS));
}

TEST_CASE("a new code for a name ends the older one; revoking the name ends it, too") {
  FleetList fleet = fleet_of_two();
  fleet.open_enrolment("barn", hash_of('x'), kNowS);
  fleet.open_enrolment("barn", hash_of('y'), kNowS);
  CHECK_FALSE(fleet.use_secret(hash_of('x'), kNowS));
  REQUIRE(fleet.revoke("barn", kNowS).ok());
  CHECK_FALSE(fleet.use_secret(hash_of('y'), kNowS));
}

TEST_CASE("a list comes back from its text, and every broken one is kCorrupt with its place") {
  FleetList fleet = fleet_of_two();
  REQUIRE(fleet.revoke("shed", kNowS + 5).ok());
  fleet.open_enrolment("hall", hash_of('x'), kNowS);
  const std::string text = fleet_text(fleet);
  CHECK(*parse_fleet(text, "f") == fleet);
  CHECK(*parse_fleet("", "f") == FleetList());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return parse_fleet(changed, "fleet.toml");
  };
  for (const auto& broken :
       {with("\"barn\"", "\"b rn\""), with("\"barn\"", "\"shed\""), with(key_of('b'), "12"),
        with("tries = 5", "tries = 6"), with("[[worker]]", "[worker"), with("\"hall\"", "7")}) {
    REQUIRE_FALSE(broken);
    CHECK(broken.error().code() == Code::kCorrupt);
    CHECK(broken.error().message().starts_with("fleet.toml:"));
  }
}

TEST_CASE("a fleet's folder is made once, whole, and its keys are its owner's") {
  const TempFolder temp;
  const std::string path = temp.file("fleet");
  const ServerHost host{.names = {"desk"}, .addresses = {"192.0.2.7", "2001:db8::7"}};
  REQUIRE(FleetFolder::make(path, host, kNowS).ok());
  const Status again = FleetFolder::make(path, host, kNowS);
  CHECK(again.code() == Code::kInvalidArgument);
  CHECK(says(again, "never overwritten"));
  for (const char* name : {"/authority.key", "/server.key", "/fleet.toml"}) {
    struct stat found {};
    REQUIRE(stat((path + name).c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0600);
  }
  Result<FleetFolder> folder = FleetFolder::open(path);
  REQUIRE(folder);
  CHECK(folder->read()->workers.empty());
  CHECK(folder->changed());
  CHECK_FALSE(folder->changed());
  REQUIRE(folder
              ->update([](FleetList* fleet) -> Status {
                fleet->enlist({"barn", key_of('b'), "01", kNowS, 0});
                return {};
              })
              .ok());
  CHECK(folder->changed());
  CHECK(folder->read()->workers.size() == 1);
  // A try is counted though the change fails.
  REQUIRE(folder
              ->update([](FleetList* fleet) -> Status {
                fleet->open_enrolment("hall", hash_of('x'), kNowS);
                return fail(Code::kRefused, "no");
              })
              .code() == Code::kRefused);
  CHECK(folder->read()->pending.size() == 1);
  const Result<FleetFolder> missing = FleetFolder::open(temp.file("none"));
  REQUIRE_FALSE(missing);
  CHECK(says(missing.error(), "edge_server init"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
