// The checker itself: what it has to notice, and what it must not complain of.
#include "tests/faults/history.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "server/run_config.h"
#include "server/run_keeper.h"
#include "tests/server/server_desk.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr uint64_t kUpdates = 5;

// A folder in which worker "a" has kUpdates updates in the journal, as a crash leaves it.
struct Run {
  TempFolder folder;
  std::string state = folder.file("state");
  uint32_t checksum = 0;
  uint64_t publication = 0;

  explicit Run(uint64_t updates = kUpdates) {
    const std::string text = desk_run_text(4, 3) +
                             "[communication]\npace = \"asp\"\nfreq = \"fixed:1\"\n"
                             "codec_up = \"raw32\"\ncodec_down = \"raw32\"\n";
    ServerOptions options = parse_serve_config(text, "run.toml").value().core;
    options.recording = Recording::kPayloads;
    ServerDesk desk(std::move(options));
    RunKeeperOptions keeper_options;
    keeper_options.folder = state;
    keeper_options.journal = Recording::kPayloads;
    const std::unique_ptr<RunKeeper> keeper = RunKeeper::open(keeper_options).value();
    REQUIRE(keeper->begin(&desk.core()).ok());
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    keeper->record(&desk.core());
    for (uint64_t i = 0; i < updates; ++i) {
      worker.exchange(0.25f);
      keeper->record(&desk.core());
    }
    REQUIRE(keeper->commit(&desk.core(), desk.now));
    checksum = desk.core().checksum();
    publication = desk.core().publication();
  }
};

void say_granted(History* history, uint64_t first, uint64_t last) {
  for (uint64_t sequence = first; sequence <= last; ++sequence)
    history->read_worker_line("a",
                              format_text("00:00:00.000 debug worker a: update %llu is granted",
                                          static_cast<unsigned long long>(sequence)));
}

std::string model_line(uint64_t publication, uint32_t checksum) {
  return format_text("00:00:00.000 debug worker a: publication %llu checksum %08x",
                     static_cast<unsigned long long>(publication), checksum);
}

History::Found read(History* history, const std::string& folder) {
  Result<History::Found> found = history->read_folder(folder);
  REQUIRE_MESSAGE(found, found.error().message());
  return *found;
}

}  // namespace

TEST_SUITE("faults/history") {
  TEST_CASE("what was granted and is in the journal once is in order") {
    const Run run;
    History history;
    say_granted(&history, 1, kUpdates);
    history.read_worker_line("a", model_line(run.publication, run.checksum));
    const History::Found found = read(&history, run.state);
    CHECK(found.whole);
    CHECK(found.checksum == run.checksum);
    CHECK(found.publication == run.publication);
    const History::Verdict verdict = history.verdict();
    CHECK(verdict.clean());
    CHECK(verdict.acknowledged == kUpdates);
    CHECK(verdict.applied == kUpdates);
  }

  TEST_CASE("an update that was granted and is not there is lost, unless its worker was warned") {
    const Run run;
    History history;
    say_granted(&history, 1, kUpdates + 1);
    read(&history, run.state);
    CHECK(history.verdict().lost == 1);
    History warned;
    say_granted(&warned, 1, kUpdates);
    warned.read_worker_line("a", "debug worker a: update 6 is granted, not durable");
    read(&warned, run.state);
    CHECK(warned.verdict().clean());
    CHECK(warned.verdict().not_durable == 1);
  }

  TEST_CASE("an update that is in two journals is doubled") {
    const Run run;
    namespace fs = std::filesystem;
    for (const KeptFile& file : kept_files(run.state))
      if (file.kind == KeptKind::kJournal)
        fs::copy_file(file.path, kept_path(run.state, file.serial + 1, KeptKind::kJournal));
    History history;
    history.read_journals(run.state);
    CHECK(history.verdict().doubled == kUpdates);
  }

  TEST_CASE("an update that was refused and is in the journal was taken though") {
    const Run run;
    History history;
    history.read_worker_line("a", "debug worker a: update 2 is refused");
    read(&history, run.state);
    CHECK(history.verdict().taken_though_refused == 1);
  }

  TEST_CASE("two models under one number are noticed, from logs and from the folder") {
    const Run run;
    History history;
    history.read_worker_line("a", model_line(run.publication, run.checksum ^ 1));
    read(&history, run.state);
    CHECK(history.verdict().models_differ == 1);
  }

  TEST_CASE("a journal that the server has removed by now still counts") {
    const Run run;
    History history;
    say_granted(&history, 1, kUpdates);
    history.read_journals(run.state);
    const Run later(0);  // a folder whose journals hold nothing of it
    const std::vector<KeptFile> files = kept_files(later.state);
    REQUIRE_FALSE(files.empty());
    std::filesystem::rename(files.front().path,
                            kept_path(later.state, files.front().serial + 4, files.front().kind));
    history.read_journals(later.state);
    CHECK(history.verdict().applied == kUpdates);
  }
}
