#include "server/command_backup.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/files.h"
#include "server/fleet_folder.h"
#include "server/run_keeper.h"
#include "tests/server/server_desk.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using test::desk_options;
using test::HandWorker;
using test::ServerDesk;
using test::TempFolder;

namespace {

constexpr int64_t kNowS = 1'800'000'000;

struct Model {
  uint64_t generation = 0, publication = 0;
  uint32_t checksum = 0;
};

// A server's life on `folder`, with some updates; it ends as a kill does unless `in_order`.
Model live(const std::string& folder, int exchanges, bool in_order) {
  ServerOptions options = desk_options("bsp");
  options.recording = Recording::kRecovery;
  ServerDesk desk(options);
  HandWorker worker{&desk, "a"};
  RunKeeperOptions keeper_options;
  keeper_options.folder = folder;
  const std::unique_ptr<RunKeeper> keeper = RunKeeper::open(std::move(keeper_options)).value();
  const Status begun = keeper->begin(&desk.core());
  REQUIRE_MESSAGE(begun.ok(), begun.message());
  if (exchanges > 0) {
    worker.say_hello();
    worker.sequence = worker.welcome.last_settled;
  }
  for (int i = 0; i < exchanges; ++i) {
    worker.exchange(0.25f);
    keeper->record(&desk.core());
    REQUIRE(keeper->commit(&desk.core(), 1'000'000));
  }
  const Model model{desk.core().generation(), desk.core().publication(), desk.core().checksum()};
  if (in_order) {
    desk.core().suspend();
    REQUIRE(keeper->end(&desk.core()).ok());
  }
  return model;
}

mode_t mode_of(const std::string& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return found.st_mode & 0777;
}

}  // namespace

TEST_SUITE("server/command_backup") {
  TEST_CASE("a fleet comes back with its keys and its list, for its owner's eyes only") {
    const TempFolder folder;
    const ServerFolders here{.fleet = folder.file("fleet"), .state = {}};
    REQUIRE(FleetFolder::make(here.fleet, {}, kNowS).ok());
    REQUIRE(FleetFolder::open(here.fleet)
                ->update([](FleetList* list) {
                  ListedWorker worker;
                  worker.name = "greenhouse";
                  worker.key = std::string(64, 'a');
                  list->enlist(std::move(worker));
                  return Status();
                })
                .ok());
    const std::string backup = folder.file("backup");
    const Result<std::string> told = back_up(here, backup);
    REQUIRE_MESSAGE(told.has_value(), told.error().message());
    CHECK(told->find("a fleet of 1 worker\n") != std::string::npos);
    CHECK(mode_of(backup) == 0700);
    CHECK(mode_of(backup + "/fleet/authority.key") == 0600);
    CHECK(mode_of(backup + "/fleet/server.key") == 0600);

    const ServerFolders there{.fleet = folder.file("again"), .state = folder.file("none")};
    REQUIRE(restore_backup(backup, there, kNowS).has_value());
    const FleetFolder old = FleetFolder::open(here.fleet).value();
    const FleetFolder again = FleetFolder::open(there.fleet).value();
    CHECK(again.authority().key_pem == old.authority().key_pem);
    CHECK(*again.read() == *old.read());
    CHECK_FALSE(std::filesystem::exists(there.state));
  }

  TEST_CASE("a restored run has the snapshot's model, in a generation that no board has met") {
    for (const bool in_order : {false, true}) {
      const TempFolder folder;
      const ServerFolders here{.fleet = {}, .state = folder.file("state")};
      live(here.state, 3, true);
      const Model backed_up = live(here.state, 0, in_order);
      const std::string backup = folder.file("backup");
      REQUIRE(back_up(here, backup).has_value());
      // The run goes on, and in a generation of its own; then its disk is gone.
      live(here.state, 5, false);
      const ServerFolders there{.fleet = {}, .state = folder.file("again")};
      REQUIRE(restore_backup(backup, there, kNowS).has_value());
      const Model again = live(there.state, 2, false);
      CHECK(again.generation == backed_up.generation + kNowS);
      CHECK(again.publication > backed_up.publication);
      CHECK(live(there.state, 0, true).generation == again.generation);
      const Model once_more = [&] {
        const ServerFolders third{.fleet = {}, .state = folder.file("third")};
        REQUIRE(restore_backup(backup, third, kNowS + 60).has_value());
        return live(third.state, 0, true);
      }();
      CHECK(once_more.publication == backed_up.publication);
      CHECK(once_more.checksum == backed_up.checksum);
      CHECK(once_more.generation != again.generation);
    }
  }

  TEST_CASE("nothing is overwritten, and what is no backup or no good is named") {
    const TempFolder folder;
    const ServerFolders here{.fleet = folder.file("fleet"), .state = folder.file("state")};
    const std::string backup = folder.file("backup");
    CHECK(back_up(here, backup).error().code() == Code::kNotFound);
    CHECK(restore_backup(backup, here, kNowS).error().message().find("is no backup") !=
          std::string::npos);
    REQUIRE(FleetFolder::make(here.fleet, {}, kNowS).ok());
    live(here.state, 1, false);
    REQUIRE(back_up(here, backup).has_value());
    CHECK(back_up(here, backup).error().code() == Code::kInvalidArgument);
    CHECK(restore_backup(backup, here, kNowS).error().code() == Code::kInvalidArgument);
    // Refused before the fleet's half is written.
    const ServerFolders half{.fleet = folder.file("new-fleet"), .state = here.state};
    CHECK(restore_backup(backup, half, kNowS).error().code() == Code::kInvalidArgument);
    CHECK_FALSE(std::filesystem::exists(half.fleet));

    for (const char* name : {"a", "b"})
      if (const std::string path = here.state + "/state." + name; std::filesystem::exists(path))
        std::ofstream(path, std::ios::trunc) << "torn";
    const std::string second = folder.file("second");
    CHECK(back_up(here, second).error().code() == Code::kCorrupt);
    CHECK_FALSE(std::filesystem::exists(second));
    std::filesystem::remove(here.fleet + "/server.key");
    CHECK(back_up(here, second).error().message().find("server.key") != std::string::npos);
  }
}
