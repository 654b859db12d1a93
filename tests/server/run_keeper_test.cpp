#include "server/run_keeper.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "runtime/base/files.h"
#include "tests/server/server_desk.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using test::desk_options;
using test::HandWorker;
using test::ServerDesk;
using test::TempFolder;

namespace {

// Succeeds until its owner says otherwise, on the files of a folder.
struct Disk {
  bool full = false;
  uint64_t free_bytes = UINT64_MAX;
  bool fails_sync = false;
  uint32_t syncs = 0;
};

class WatchedFile final : public AppendFile {
 public:
  WatchedFile(std::unique_ptr<AppendFile> file, Disk* disk)
      : file_(std::move(file)), disk_(*disk) {}
  Status append(ByteSpan bytes) override {
    return disk_.full ? fail(Code::kResourceExhausted, "no space left") : file_->append(bytes);
  }
  Status sync() override {
    ++disk_.syncs;
    if (std::exchange(disk_.fails_sync, false)) return fail(Code::kIo, "a broken sector");
    return disk_.full ? fail(Code::kResourceExhausted, "no space left") : file_->sync();
  }

 private:
  std::unique_ptr<AppendFile> file_;
  Disk& disk_;
};

// One life of a server with a worker, on a folder. A kill is its end without end().
class Life {
 public:
  explicit Life(const std::string& folder, Recording journal = Recording::kRecovery,
                bool waits = true, Disk* disk = nullptr)
      : desk_(options_of(journal)), worker_{&desk_, "a"} {
    RunKeeperOptions options;
    options.folder = folder;
    options.journal = journal;
    options.waits_for_disk = waits;
    if (disk != nullptr)
      options.free_bytes = [disk](const std::string&) { return disk->free_bytes; };
    if (disk != nullptr)
      options.create = [disk](const std::string& path) -> Result<std::unique_ptr<AppendFile>> {
        PACELINE_ASSIGN(std::unique_ptr<AppendFile> file, create_append_file(path));
        return std::make_unique<WatchedFile>(std::move(file), disk);
      };
    keeper_ = RunKeeper::open(std::move(options)).value();
    begun_ = keeper_->begin(&desk_.core());
    if (!begun_.ok()) return;
    worker_.say_hello();
    worker_.sequence = worker_.welcome.last_settled;
    note();
  }

  // False: what it did may not be said yet.
  bool exchange() {
    worker_.exchange(0.25f);
    return note();
  }
  bool note() {
    keeper_->record(&desk_.core());
    return keeper_->commit(&desk_.core(), now_);
  }
  void tick(TimeUs us) {
    now_ += us;
    keeper_->tick(&desk_.core(), now_);
  }
  Status end() {
    desk_.core().suspend();
    return keeper_->end(&desk_.core());
  }

  const Status& begun() const { return begun_; }
  ServerCore& core() { return desk_.core(); }
  RunKeeper& keeper() { return *keeper_; }

 private:
  static ServerOptions options_of(Recording journal) {
    ServerOptions options = desk_options("bsp");
    options.recording = journal;
    return options;
  }

  ServerDesk desk_;
  HandWorker worker_;
  std::unique_ptr<RunKeeper> keeper_;
  Status begun_;
  TimeUs now_ = 1'000'000;
};

struct Model {
  uint64_t generation, publication;
  uint32_t checksum;
  bool operator==(const Model&) const = default;
};
Model model_of(const ServerCore& core) {
  return {core.generation(), core.publication(), core.checksum()};
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

}  // namespace

TEST_SUITE("server/run_keeper") {
  TEST_CASE("killed after any exchange, a server is where it was, in its generation") {
    for (const Recording journal : {Recording::kRecovery, Recording::kPayloads}) {
      const TempFolder folder;
      const std::string path = folder.file("state");
      Model before{};
      for (int life = 0; life < 6; ++life) {
        Life server(path, journal);
        REQUIRE_MESSAGE(server.begun().ok(), server.begun().message());
        if (life > 0) CHECK(model_of(server.core()) == before);
        CHECK(server.core().options().durable);
        for (int i = 0; i <= life; ++i) CHECK(server.exchange());
        // Sometimes right behind a snapshot.
        if (life % 2 == 1) server.tick(1);
        if (life % 2 == 1) server.tick(from_ms(60'000));
        before = model_of(server.core());
        CHECK(before.generation == 1);
      }
    }
  }

  TEST_CASE("an orderly end and a start between two kills change nothing") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    Model before{};
    for (int life = 0; life < 4; ++life) {
      Life server(path);
      REQUIRE(server.begun().ok());
      if (life > 0) CHECK(model_of(server.core()) == before);
      CHECK(server.exchange());
      before = model_of(server.core());
      if (life % 2 == 0) CHECK(server.end().ok());
    }
  }

  TEST_CASE("without a journal a kill takes the run back, in a new generation") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    {
      Life server(path, Recording::kOff);
      CHECK_FALSE(server.core().options().durable);
      server.exchange();
    }
    Life next(path, Recording::kOff);
    CHECK(model_of(next.core()).generation == 2);
    CHECK(model_of(next.core()).publication == 1);
  }

  TEST_CASE("the newest snapshot may be broken: the older one and both journals lead on") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    Model before{};
    {
      Life server(path);
      for (int i = 0; i < 3; ++i) server.exchange();
      server.tick(1);
      server.tick(from_ms(60'000));  // snapshot 2, in state.a
      for (int i = 0; i < 2; ++i) server.exchange();
      before = model_of(server.core());
    }
    folder.write("state/state.a", "torn");
    for (int life = 0; life < 2; ++life) {
      Life next(path);
      REQUIRE(next.begun().ok());
      CHECK(model_of(next.core()) == before);
    }
  }

  TEST_CASE("a life that was killed while it began its journal is passed over") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    Model before{};
    {
      Life server(path);  // snapshot 1, in state.b
      for (int i = 0; i < 3; ++i) server.exchange();
    }
    folder.write("state/state.00000002.journal", "");
    {
      Life server(path);  // the next one in state.a: the two never share a file
      for (int i = 0; i < 2; ++i) server.exchange();
      before = model_of(server.core());
    }
    folder.write("state/state.a", "torn");
    Life next(path);
    REQUIRE(next.begun().ok());
    CHECK(model_of(next.core()) == before);
  }

  TEST_CASE("a torn end is cut off; damage before the last sync begins a generation") {
    for (const bool torn : {true, false}) {
      const TempFolder folder;
      const std::string path = folder.file("state");
      Model one{};
      {
        Life server(path);
        server.exchange();
        one = model_of(server.core());
        server.exchange();
        if (!torn) server.exchange();
      }
      const std::string journal = kept_path(path, 1, KeptKind::kJournal);
      Bytes bytes = read_file(journal, 1 << 20).value();
      const Journal parsed = parse_journal(bytes).value();
      // The second exchange's record: the last one, or one with another behind it.
      const auto at = static_cast<size_t>(parsed.records[2].bytes.data() - bytes.data());
      if (torn)
        bytes.resize(at + 3);
      else
        bytes[at] ^= std::byte{1};
      std::filesystem::remove(journal);
      folder.write("state/state.00000001.journal", bytes);
      Life next(path);
      REQUIRE(next.begun().ok());
      one.generation = torn ? 1 : 2;
      CHECK(model_of(next.core()) == one);
    }
  }

  TEST_CASE("a sync that fails once ends its file, and a new snapshot holds everything") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    Disk disk;
    Model before{};
    {
      Life server(path, Recording::kRecovery, true, &disk);
      CHECK(server.exchange());
      disk.fails_sync = true;
      CHECK(server.exchange());
      CHECK_FALSE(server.keeper().stalled());
      CHECK(names_in(path).count("state.00000002.journal") == 1);
      CHECK(server.exchange());
      before = model_of(server.core());
    }
    Life next(path);
    CHECK(model_of(next.core()) == before);
  }

  TEST_CASE("with a full disk nothing rests on what is not written, and all is well afterwards") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    Disk disk;
    Model before{}, acknowledged{};
    {
      Life server(path, Recording::kRecovery, true, &disk);
      CHECK(server.exchange());
      acknowledged = model_of(server.core());
      disk.full = true;
      CHECK_FALSE(server.exchange());
      CHECK(server.keeper().stalled());
      CHECK(server.keeper().trouble() == "no space left");
      CHECK(server.keeper().unsynced());
      server.tick(from_ms(1000));
      CHECK(server.keeper().stalled());
      // A kill now takes back nothing but what was not said.
      std::filesystem::copy(path, folder.file("copy"));
      disk.full = false;
      server.tick(from_ms(1000));
      CHECK_FALSE(server.keeper().stalled());
      CHECK_FALSE(server.keeper().unsynced());
      CHECK(server.exchange());
      before = model_of(server.core());
    }
    CHECK(model_of(Life(path).core()) == before);
    CHECK(model_of(Life(folder.file("copy")).core()) == acknowledged);
  }

  TEST_CASE("a journal ends with a snapshot before it takes a quarter of what the disk has free") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    Disk disk;
    disk.free_bytes = 400'000;
    Life server(path, Recording::kRecovery, true, &disk);
    uint64_t longest = 0;
    for (int i = 0; i < 1'000; ++i) {
      server.exchange();
      server.tick(1);
      for (const KeptFile& file : kept_files(path)) longest = std::max(longest, file.bytes);
    }
    CHECK(longest > 50'000);
    CHECK(longest < 105'000);  // one record more
  }

  TEST_CASE("by wish a full disk does not stop the run; a kill then costs a generation") {
    for (const bool space_returns : {true, false}) {
      const TempFolder folder;
      const std::string path = folder.file("state");
      Disk disk;
      Model before{};
      {
        Life server(path, Recording::kRecovery, false, &disk);
        CHECK(server.exchange());
        before = model_of(server.core());
        disk.full = true;
        CHECK(server.exchange());
        CHECK_FALSE(server.core().options().durable);
        CHECK(server.exchange());
        if (space_returns) {
          disk.full = false;
          server.tick(from_ms(1000));
          CHECK(server.core().options().durable);
          CHECK(server.exchange());
          before = model_of(server.core());
        }
      }
      Life next(path);
      if (!space_returns) before.generation = 2;
      CHECK(model_of(next.core()) == before);
    }
  }

  TEST_CASE("what came in one turn shares a sync, and a turn without a record needs none") {
    const TempFolder folder;
    Disk disk;
    Life server(folder.file("state"), Recording::kRecovery, true, &disk);
    server.exchange();
    const uint32_t before = disk.syncs;
    CHECK(server.note());
    CHECK(disk.syncs == before);
    server.exchange();
    CHECK(disk.syncs == before + 1);
  }

  TEST_CASE("what recovery can't need any more goes; for replay everything stays") {
    for (const Recording journal : {Recording::kRecovery, Recording::kPayloads}) {
      const TempFolder folder;
      const std::string path = folder.file("state");
      Life server(path, journal);
      server.tick(1);
      for (int i = 0; i < 5; ++i) {
        server.exchange();
        server.tick(from_ms(60'000));
      }
      const bool all = journal == Recording::kPayloads;
      const std::set<std::string> names = names_in(path);
      CHECK(names.count("state.00000001.journal") == (all ? 1 : 0));
      CHECK(names.count("state.00000001.snapshot") == (all ? 1 : 0));
      CHECK(names.count("state.00000005.journal") == 1);
      CHECK(names.count("state.00000006.journal") == 1);
      CHECK(names.count("run.toml") == 1);
      if (!all) CHECK(kept_files(path).size() == 2);
    }
  }

  TEST_CASE("journals without their snapshot are a decision for a person") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    { Life(path).exchange(); }
    std::filesystem::remove(path + "/state.b");
    Life next(path);
    CHECK(next.begun().code() == Code::kCorrupt);
    CHECK(next.begun().message().find("remove the folder") != std::string::npos);
  }

  TEST_CASE("a first life that was cut short while it began is no obstacle") {
    const TempFolder folder;
    std::filesystem::create_directory(folder.file("state"));
    folder.write("state/state.00000001.journal", "PCLJ");
    Life server(folder.file("state"));
    CHECK(server.begun().ok());
    CHECK(server.exchange());
  }
}
