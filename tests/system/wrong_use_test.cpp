// What people get wrong, and what they are told: which thing, where, and what to do.
#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

// Exit 2 and one line that names everything in `words`.
void is_usage_error(const Finished& finished, const std::vector<std::string>& words) {
  CAPTURE(finished.err);
  CHECK(finished.exit == 2);
  CHECK(finished.out.empty());
  CHECK(lines_of(finished.err).size() == 1);
  for (const std::string& word : words) CHECK_MESSAGE(says(finished.err, word), word);
}

}  // namespace

TEST_SUITE("system/wrong use") {
  TEST_CASE("a worker with a bad option or no data says which, and how to mend it") {
    Site site;
    const std::string data = site.data("good");
    is_usage_error(site.run_worker({}), {"--data", "--help"});
    is_usage_error(site.run_worker({"desk.local"}), {"--data"});
    is_usage_error(site.run_worker({"127.0.0.1", "--data", site.file("none.csv")}),
                   {site.file("none.csv")});
    is_usage_error(site.run_worker({"127.0.0.1", "--data", data, "--labels", site.file("none")}),
                   {site.file("none")});
    is_usage_error(site.run_worker({"127.0.0.1", "--data", data, "--label-column", "kinds"}),
                   {data, "kinds", "kind"});
    is_usage_error(site.run_worker({"desk.local:port", "--data", data}), {"desk.local:port"});
    is_usage_error(site.run_worker({"127.0.0.1", "--data", data, "--link", "fast"}), {"fast"});
    is_usage_error(site.run_worker({"127.0.0.1", "--data", data, "--shard", "4/2"}), {"4/2"});
    is_usage_error(site.run_worker({"127.0.0.1", "--data", data, "--backend", "abacus"}),
                   {"'abacus' is unknown", "reference"});
    const Finished unknown = site.run_worker({"127.0.0.1", "--data", data, "--sped", "1"});
    CHECK(unknown.exit == 2);
    CHECK(says(unknown.err, "--sped"));
  }

  TEST_CASE("a server with a bad run says which file, line and key, and what there is instead") {
    Site site;
    const std::string good = RunText().text();
    const auto serve = [&](const std::string& text) {
      return site.run_server({"serve", site.write("bad.toml", text), "--listen", "127.0.0.1:0"});
    };
    const auto with = [&](const std::string& from, const std::string& to) {
      const size_t place = good.find(from);
      REQUIRE(place != std::string::npos);
      return std::string(good).replace(place, from.size(), to);
    };
    const std::string file = site.file("bad.toml");
    is_usage_error(site.run_server({"serve", site.file("none.toml")}), {site.file("none.toml")});
    is_usage_error(serve("[model\n"), {file, "line 1, column 7"});
    is_usage_error(serve(with("min_workers", "min_worker")), {file + ":23:1", "min_workers"});
    is_usage_error(serve(with("heartbeat_ms = 200", "heartbeat_ms = 1")), {file, "heartbeat_ms"});
    is_usage_error(serve(with("\"compat\"", "\"compot\"")), {"compot", "compat"});
    is_usage_error(serve(with("\"fixed:4\"", "\"fixed:0\"")), {"fixed"});
    is_usage_error(serve(with("\"s1r\"", "\"s2r\"")), {"s2r", "s1r"});
    is_usage_error(serve(with("codec_down = \"s1r\"", "codec_down = \"s1\"")), {"s1", "q8"});
    is_usage_error(serve(with("\"relu\"", "\"rely\"")), {file, "relu"});
    const Finished unknown = site.run_server({"serve", file, "--round", "3"});
    CHECK(unknown.exit == 2);
    CHECK(says(unknown.err, "--round"));
  }

  TEST_CASE("a server whose address or state is taken says so and ends") {
    Site site;
    const std::vector<std::string> state = {"--state", site.file("state")};
    Process first = site.server({}, state);
    const std::string run = site.file("run.toml");
    const Finished same_port =
        site.run_server({"serve", run, "--listen", site.address().substr(6)});
    CHECK_MESSAGE(same_port.exit != 0, same_port.err);
    CHECK_MESSAGE(says(same_port.err, site.address()), same_port.err);
    const Finished same_state =
        site.run_server({"serve", run, "--listen", "127.0.0.1:0", "--state", site.file("state")});
    CHECK_MESSAGE(same_state.exit == 1, same_state.err);
    CHECK_MESSAGE(says(same_state.err, site.file("state")), same_state.err);
    // A run with another description is not what the folder holds.
    first.signal(SIGTERM);
    CHECK(first.wait_exit() == 0);
    RunText other;
    other.hidden = 17;
    const Finished other_run =
        site.run_server({"serve", site.write("other.toml", other.text()), "--listen", "127.0.0.1:0",
                         "--state", site.file("state")});
    CHECK_MESSAGE(other_run.exit == 2, other_run.err);
    CHECK_MESSAGE(says(other_run.err, site.file("state") + ": it belongs to a run with another"),
                  other_run.err);
  }

  TEST_CASE("a worker with a wrong address names it and why, and can be told to stop") {
    Site site;
    Process nobody_there = site.worker_at("127.0.0.1:1", "lonely");
    CHECK(nobody_there.wait_err("tcp://127.0.0.1:1: Connection refused"));
    Process no_such_name = site.worker_at("no-such-host.invalid", "lost", {"--plain"});
    CHECK(no_such_name.wait_err("dialing tcp://no-such-host.invalid:7433: "));
    for (Process* worker : {&nobody_there, &no_such_name}) {
      CHECK(worker->running());
      worker->signal(SIGTERM);
      CHECK_MESSAGE(worker->wait_exit(10'000) == 0, worker->err());
    }
  }

  TEST_CASE("a model that does not fit a worker's data is a reason and a fix, not a retry") {
    Site site;
    Process server = site.server({});
    const std::string narrow = site.write("narrow.csv", [] {
      std::string text = "a,b,kind\n";
      for (int i = 0; i < 60; ++i) text += "1,2," + std::to_string(i % 3) + "\n";
      return text;
    }());
    Process worker = site.worker("narrow", {"--data", narrow});
    CHECK(worker.wait_exit() == 1);
    CHECK_MESSAGE(says(worker.err(), "its rows have 2 values, the model takes 8; give"),
                  worker.err());
    const std::string many = site.write("many.csv", [] {
      std::string text = "a,b,c,d,e,f,g,h,kind\n";
      for (int i = 0; i < 60; ++i) text += "1,2,3,4,5,6,7,8," + std::to_string(i % 5) + "\n";
      return text;
    }());
    worker = site.worker("many", {"--data", many});
    CHECK(worker.wait_exit() == 1);
    CHECK_MESSAGE(says(worker.err(), "its labels have 5 classes, the model has 3; check"),
                  worker.err());
  }

  TEST_CASE("of two workers of one name the first works on, and the second is told why it waits") {
    Site site;
    Process server = site.server({});
    Process first = site.worker("twin", {"--step-ms", "2"});
    CHECK(first.wait_err("publication 3 checksum"));
    Process second = site.worker("twin", {"--step-ms", "2", "--data", site.data("other")});
    CHECK(
        second.wait_err("another worker of the name 'twin' is at work; give each its own --name"));
    const uint64_t reached = newest_publication(server.err());
    CHECK(wait_until([&] { return newest_publication(server.err()) > reached + 20; }));
    CHECK(second.running());
    // The name is free when the first has left.
    first.signal(SIGTERM);
    CHECK(first.wait_exit() == 0);
    CHECK(second.wait_err("checksum"));
    second.signal(SIGTERM);
    CHECK(second.wait_exit() == 0);
  }

  TEST_CASE("every odd or broken data file ends in a description or in one line that helps") {
    const char* folder = std::getenv("PACELINE_TEST_DATA");
    if (folder == nullptr) {
      std::printf("skipped: no data\n");
      return;
    }
    Site site;
    const std::string awkward = std::string(folder) + "/awkward/";
    const std::string images = awkward + "idx-08-ubyte-64x28x28.idx";
    size_t broken = 0;
    for (const auto& entry : std::filesystem::directory_iterator(awkward)) {
      const std::string name = entry.path().filename();
      const bool is_idx = name.starts_with("idx-"), is_bad = name.starts_with("bad-");
      if (!is_idx && !is_bad) continue;
      CAPTURE(name);
      // Labels go with the images that they belong to.
      std::vector<std::string> arguments = {"data", entry.path()};
      if (name.find("label") != std::string::npos)
        arguments = {"data", images, "--labels", entry.path()};
      const Finished described = site.run_worker(arguments);
      CAPTURE(described.err);
      // Plain bytes under a name of gzip's are taken by their content; a label of 200 is only wrong
      // where a model says how many classes there are.
      const bool fine = is_idx || name == "bad-gz-named-but-plain.idx.gz" ||
                        name == "bad-label-out-of-range-200.idx";
      if (fine) {
        CHECK(described.exit == 0);
        CHECK(described.err.empty());
        CHECK(lines_of(described.out).size() == 1);
      } else {
        ++broken;
        is_usage_error(described, {name});
        arguments[0] = "--data";
        arguments.insert(arguments.begin(), "127.0.0.1");
        is_usage_error(site.run_worker(arguments), {name});
      }
    }
    CHECK(broken >= 10);
  }
}
