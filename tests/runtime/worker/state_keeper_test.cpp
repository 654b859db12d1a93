#include "runtime/worker/state_keeper.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/base/files.h"
#include "runtime/base/safetensors.h"
#include "tests/runtime/worker/worker_desk.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using test::directive_of;
using test::TempFolder;
using test::WorkerDesk;

namespace {

bool exists(const std::string& path) { return std::filesystem::exists(path); }

// A worker that has something to keep.
struct Board {
  WorkerDesk desk{{}};
  Board() { desk.connect(directive_of(2, CodecId::kQ8)); }
  void exchange() {
    desk.work(2);
    desk.take_update();
    desk.grant(directive_of(2, CodecId::kQ8));
  }
};

}  // namespace

TEST_SUITE("worker/state_keeper") {
  TEST_CASE("saves stay within the day's budget, whatever the state's size") {
    for (const double mb : {1.0, 50.0, 5000.0})
      for (const uint64_t bytes : {uint64_t{100}, uint64_t{1'000'000}, uint64_t{700'000'000}}) {
        const TimeUs interval = save_interval_us(bytes, mb);
        const double saves = 86'400e6 / static_cast<double>(interval);
        CHECK(saves * static_cast<double>(bytes) <= mb * 1e6);
      }
    CHECK(save_interval_us(1000, 0) == kNever);
    // The page in docs/reliability.md names this one.
    CHECK(to_seconds(save_interval_us(1'246'000, 50)) == doctest::Approx(2180).epsilon(0.01));
  }

  TEST_CASE("what is kept is taken up by the next life; the newest of two saves counts") {
    const TempFolder folder;
    const StateOptions options{folder.file("state"), 50};
    Bytes last;
    {
      Board board;
      StateKeeper keeper = StateKeeper::open(options, &board.desk.core()).value();
      const TimeUs interval = save_interval_us(keeper.saved_bytes(), 50);
      TimeUs now = 1;
      keeper.tick(now);
      CHECK_FALSE(exists(folder.file("state/worker.b")));  // not at once
      for (int i = 0; i < 3; ++i) {
        board.exchange();
        now += interval;
        keeper.tick(now);
      }
      CHECK(exists(folder.file("state/worker.a")));
      CHECK(exists(folder.file("state/worker.b")));
      board.exchange();
      keeper.tick(now + interval / 2);
      keeper.save_last();
      last = board.desk.core().save();
    }
    WorkerDesk next({});
    const Result<StateKeeper> keeper = StateKeeper::open(options, &next.core());
    REQUIRE(keeper.has_value());
    CHECK(next.core().restored() == Restored::kWaiting);
    CHECK(next.core().save() == last);
  }

  TEST_CASE("the model is kept beside the state, with its run, and is the published one") {
    const TempFolder folder;
    Board board;
    StateKeeper keeper = StateKeeper::open({folder.file("state"), 50}, &board.desk.core()).value();
    board.exchange();
    keeper.save_last();
    const Bytes file = read_file(folder.file("state/model.safetensors"), 1 << 20).value();
    const Safetensors model = Safetensors::parse(file).value();
    CHECK(model.metadata().at("run") == board.desk.core().run_text());
    const std::span<const float> published = board.desk.core().published();
    CHECK(model.parameters(board.desk.core().run().model.layout).value() ==
          std::vector<float>(published.begin(), published.end()));
  }

  TEST_CASE("an unchanged state is not written again") {
    const TempFolder folder;
    Board board;
    StateKeeper keeper = StateKeeper::open({folder.file("state"), 50}, &board.desk.core()).value();
    board.exchange();
    TimeUs now = 1;
    for (int i = 0; i < 5; ++i) keeper.tick(now += from_ms(86'400'000));
    CHECK(exists(folder.file("state/worker.b")));
    CHECK_FALSE(exists(folder.file("state/worker.a")));
  }

  TEST_CASE("a broken file, or another worker's, is set aside and never a reason not to start") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    {
      Board board;
      StateKeeper keeper = StateKeeper::open({path, 50}, &board.desk.core()).value();
      keeper.save_last();
    }
    folder.write("state/worker.b", "torn");
    WorkerDesk next({});
    CHECK(StateKeeper::open({path, 50}, &next.core()).has_value());
    CHECK(next.core().restored() == Restored::kNothing);
    CHECK(exists(path + "/worker.b.bad"));
    {
      StateStore store = StateStore::open(path, "worker").value();
      REQUIRE(store.save(std::as_bytes(std::span("no worker's state")), true).ok());
    }
    CHECK(StateKeeper::open({path, 50}, &next.core()).has_value());
    CHECK(next.core().restored() == Restored::kNothing);
    CHECK_FALSE(exists(path + "/worker.b"));
  }

  TEST_CASE("another run's state is set aside once the server has said what the run is") {
    const TempFolder folder;
    const std::string path = folder.file("state");
    {
      Board board;
      StateKeeper keeper = StateKeeper::open({path, 50}, &board.desk.core()).value();
      keeper.save_last();
    }
    WorkerDesk other({.inputs = 21});
    StateKeeper keeper = StateKeeper::open({path, 50}, &other.core()).value();
    keeper.tick(1);
    CHECK(exists(path + "/worker.b"));
    other.connect(directive_of(2));
    keeper.tick(2);
    CHECK_FALSE(exists(path + "/worker.b"));
    CHECK(exists(path + "/worker.b.bad"));
  }

  TEST_CASE("where nothing can be written the worker goes on; a folder in use is an error") {
    WorkerDesk desk({});
    for (const char* path : {"/proc/self", "/proc/none/at/all"}) {
      Result<StateKeeper> keeper = StateKeeper::open({path, 50}, &desk.core());
      REQUIRE(keeper.has_value());
      keeper->tick(1);
      keeper->save_last();
    }
    const TempFolder folder;
    const StateOptions options{folder.file("state"), 50};
    const Result<StateKeeper> first = StateKeeper::open(options, &desk.core());
    REQUIRE(first.has_value());
    const Result<StateKeeper> second = StateKeeper::open(options, &desk.core());
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code() == Code::kUnavailable);
    CHECK(StateKeeper::open({}, &desk.core()).has_value());
  }
}
