#include "server/command_without.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/base/files.h"
#include "runtime/base/safetensors.h"
#include "server/run_config.h"
#include "server/run_keeper.h"
#include "tests/server/server_desk.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using test::desk_run_text;
using test::HandWorker;
using test::ServerDesk;
using test::TempFolder;

namespace {

constexpr int kRounds = 6;

struct Board {
  const char* name;
  uint64_t rows;  // with which the weights are exact in bf16
  float moves;    // every parameter, whatever the model is
};
constexpr Board kAnna{"anna", 100, 0.01f}, kBert{"bert", 200, 0.01f}, kOdd{"odd", 200, -0.03f};

// Serves a run of these boards; the folder keeps it. The model that is published at its end.
std::vector<float> serve(const std::string& folder, const char* pace, Recording journal,
                         const std::vector<Board>& boards) {
  const std::string text =
      desk_run_text(4, 3) +
      format_text(
          "[communication]\npace = \"%s\"\nfreq = \"fixed:1\"\ncodec_up = \"raw32\"\n"
          "codec_down = \"raw32\"\n",
          pace);
  ServerOptions options = parse_serve_config(text, "the test's run").value().core;
  options.recording = journal;
  ServerDesk desk(std::move(options));
  RunKeeperOptions keeping;
  keeping.folder = folder;
  keeping.journal = journal;
  const std::unique_ptr<RunKeeper> keeper = RunKeeper::open(std::move(keeping)).value();
  REQUIRE(keeper->begin(&desk.core()).ok());
  const auto note = [&] {
    keeper->record(&desk.core());
    REQUIRE(keeper->commit(&desk.core(), desk.now));
  };
  std::vector<HandWorker> workers;
  for (const Board& board : boards) {
    workers.push_back({&desk, board.name, board.rows});
    workers.back().say_hello();
  }
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < workers.size(); ++i) {
      // At first they only become members.
      workers[i].exchange(round < 2 ? 0.0f : boards[i].moves);
      note();
    }
  desk.core().suspend();
  REQUIRE(keeper->end(&desk.core()).ok());
  return {desk.core().published().begin(), desk.core().published().end()};
}

}  // namespace

TEST_SUITE("server/command_without") {
  TEST_CASE("where updates do not depend on the model, it is the run without that worker") {
    for (const char* pace : {"bsp", "asp"}) {
      CAPTURE(pace);
      const TempFolder folder;
      const std::string whole = folder.file("whole"), rest = folder.file("rest");
      const std::vector<float> with =
          serve(whole, pace, Recording::kPayloads, {kAnna, kBert, kOdd});
      const std::vector<float> expected = serve(rest, pace, Recording::kPayloads, {kAnna, kBert});
      const Result<Without> without =
          replay_without({.folder = whole, .worker = "odd", .model_file = folder.file("m")});
      REQUIRE_MESSAGE(without, without.error().message());
      CHECK(without->with == with);
      CHECK(without->worker.updates >= kRounds - 1);
      CHECK(without->updates >= 3 * (kRounds - 1));
      CHECK(without->moved_share > 0.01);
      REQUIRE(without->estimate.size() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        CHECK(without->estimate[i] == doctest::Approx(expected[i]).epsilon(1e-5));
      const Result<Safetensors> file =
          Safetensors::parse(read_file(folder.file("m"), 1 << 20).value());
      REQUIRE(file);
      CHECK(file->metadata().contains("run"));
    }
  }

  TEST_CASE("both models are tried on rows, if there are any") {
    const TempFolder folder;
    serve(folder.file("run"), "bsp", Recording::kPayloads, {kAnna, kOdd});
    std::string rows = "a,b,c,d,kind\n";
    for (int i = 0; i < 30; ++i) rows += format_text("%d,1,0,2,%d\n", i, i % 3);
    const Result<Without> without = replay_without(
        {.folder = folder.file("run"), .worker = "anna", .data_file = folder.write("r.csv", rows)});
    REQUIRE_MESSAGE(without, without.error().message());
    CHECK(without->rows == 30);
    CHECK(without_text(*without).find("accuracy on 30 rows: ") != std::string::npos);
  }

  TEST_CASE("who sent nothing, and journals without updates, are named") {
    const TempFolder folder;
    serve(folder.file("run"), "bsp", Recording::kPayloads, {kAnna, kOdd});
    const Result<Without> nobody = replay_without({.folder = folder.file("run"), .worker = "x"});
    REQUIRE_FALSE(nobody);
    CHECK(nobody.error().message() == "no update of 'x' is kept; there are updates of: anna, odd");
    CHECK_FALSE(replay_without({.folder = folder.file("none"), .worker = "anna"}));
    // Of two raw updates the model that they lead to is the shorter record.
    serve(folder.file("round"), "bsp", Recording::kRecovery, {kAnna, kOdd});
    const Result<Without> model =
        replay_without({.folder = folder.file("round"), .worker = "anna"});
    REQUIRE_FALSE(model);
    CHECK(model.error().code() == Code::kUnsupported);
  }
}
