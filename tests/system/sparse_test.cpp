// From LibSVM and ARFF files to predictions, with no run written by hand.
#include <doctest/doctest.h>

#include <cstdlib>

#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

double accuracy_of(const std::string& out) {
  const std::string word = "# accuracy ";
  const size_t place = out.rfind(word);
  return place == std::string::npos ? -1 : std::stod(out.substr(place + word.size()));
}

// Texts of a few words of many, by two kinds of speakers.
std::string texts(uint64_t stream, uint32_t rows) {
  Random random(test::seed(), stream);
  std::string text;
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t kind = random.below(2);
    text += kind == 1 ? "+1" : "-1";
    for (uint64_t word = 0; word < 8; ++word) {
      // Words of one kind have odd indices, those of the other even ones; one in eight is wrong.
      const uint64_t parity = random.below(8) == 0 ? 1 - kind : kind;
      const uint64_t index = 1 + 100 * word + 2 * random.below(50) + parity;
      text += format_text(" %llu:1", static_cast<unsigned long long>(index));
    }
    text += "\n";
  }
  return text;
}

// What predict says of `fresh` after a run that init proposes for the first board's file.
Finished ask(Site& site, const std::vector<std::string>& boards, const std::string& fresh) {
  const std::string run = site.file("run.toml"), state = site.file("state");
  const Finished init = site.run_server({"init", site.file("fleet"), "--from", boards[0], "--out",
                                         run, "--workers", std::to_string(boards.size())});
  REQUIRE_MESSAGE(init.exit == 0, init.err);
  Process server = site.server_of(run, {"--state", state});
  std::vector<Process> workers;
  for (size_t i = 0; i < boards.size(); ++i)
    workers.push_back(site.worker("board" + std::to_string(i), {"--data", boards[i]}));
  for (Process& worker : workers) CHECK(worker.wait_exit() == 0);
  CHECK(server.wait_exit() == 0);
  return site.run_worker({"predict", "--state", state, "--data", fresh});
}

}  // namespace

TEST_SUITE("system/sparse") {
  TEST_CASE("init, serve, two boards with other words, predict; a bad line is named") {
    Site site;
    const std::vector<std::string> boards = {site.write("a.svm", texts(1, 500)),
                                             site.write("b.txt", texts(2, 500))};
    const std::string fresh = texts(3, 300);
    const Finished said = ask(site, boards, site.write("fresh.svm", fresh));
    CHECK_MESSAGE(said.exit == 0, said.err);
    CHECK_MESSAGE(accuracy_of(said.out) > 0.9, lines_of(said.out).back());
    CHECK(lines_of(said.out).size() == 1 + 300 + 1);

    const Finished bad = site.run_worker(
        {"predict", "--state", site.file("state"), "--data",
         site.write("bad.svm", "# head\n+1 1:1\n\n-1 3:1 2:1\n-1 9:1\n"), "--json"});
    CHECK(bad.exit == 2);
    CHECK(bad.err.find("bad.svm: line 4, column 8: '2:1' comes after index 3") !=
          std::string::npos);
    CHECK(lines_of(bad.out).front().starts_with("{\"line\":2,\"label\":"));
    CHECK(bad.out.find("{\"line\":5,") != std::string::npos);

    const Finished table = site.run_worker(
        {site.address(), "--name", "x", "--data", site.write("t.csv", "a,b\n1,0\n2,1\n")});
    CHECK(table.exit != 0);
  }

  TEST_CASE("arff: words become features of the run, and CSV rows with them are answered") {
    Site site;
    Random random(test::seed(), 4);
    std::string rows =
        "@relation r\n@attribute colour {red, green, 'dark blue'}\n@attribute size real\n"
        "@attribute kind {good, bad}\n@data\n";
    for (int row = 0; row < 300; ++row) {
      const uint64_t colour = random.below(3);
      const float size = random.symmetric();
      const bool good = colour == 0 || (colour == 1 && size > 0);
      rows += format_text("%s, %.3f, %s\n",
                          colour == 0   ? "red"
                          : colour == 1 ? "green"
                                        : "'dark blue'",
                          static_cast<double>(size), good ? "good" : "bad");
    }
    const Finished said =
        ask(site, {site.write("kinds.arff", rows)},
            site.write("new.csv",
                       "colour=red,colour=green,colour=dark blue,size,kind\n1,0,0,-0.5,good\n"
                       "0,1,0,0.6,good\n0,1,0,-0.6,bad\n0,0,1,0.9,bad\n"));
    CHECK_MESSAGE(said.exit == 0, said.err);
    CHECK_MESSAGE(accuracy_of(said.out) == 1, said.out);
  }

  TEST_CASE("a9a: what init alone proposes is as good as a tuned logistic regression") {
    const char* folder = std::getenv("PACELINE_TEST_DATA");
    if (folder == nullptr) {
      std::printf("skipped: no data\n");
      return;
    }
    Site site;
    const std::string sparse = std::string(folder) + "/sparse/";
    const Finished said = ask(site, {sparse + "a9a.gz"}, sparse + "a9a.t.gz");
    std::printf("a9a: %s\n", lines_of(said.out).back().c_str());
    CHECK(accuracy_of(said.out) >= 0.84);
  }
}
