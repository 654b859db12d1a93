// A worker whose rows come on standard input while it trains.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

const char* const kRun = R"(
[data]
columns = ["a", "b"]
label = "what"
classes = ["low", "high"]
window = 4
stride = 2
[model]
input = [2, 4]
classes = 2
[[layer]]
type = "conv1d"
filters = 4
kernel = 3
[[layer]]
type = "relu"
[[layer]]
type = "globalavgpool"
[[layer]]
type = "dense"
units = 2
[communication]
freq = "fixed:4"
[server]
heartbeat_ms = 200
)";

// A sensor's end of a FIFO.
class Sensor {
 public:
  explicit Sensor(const std::string& path) : path_(path) {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    descriptor_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(descriptor_ >= 0);
  }
  ~Sensor() { stop(); }
  const std::string& path() const { return path_; }
  void write(const std::string& text) const {
    REQUIRE(::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void stop() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

std::string rows(size_t count, Random& random) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const bool high = i / 10 % 2 == 1;
    text += format_text("%.2f,%.2f,%s\n", static_cast<double>(random.symmetric()) + (high ? 1 : 0),
                        static_cast<double>(random.symmetric()), high ? "high" : "low");
  }
  return text;
}

}  // namespace

TEST_SUITE("system/live") {
  TEST_CASE("rows from standard input: trains while they come, and goes on when they have ended") {
    Site site;
    Process server = site.server_of(site.write("run.toml", kRun), {"--rounds", "100000"});
    Random random(test::seed(), 11);
    Sensor sensor(site.file("sensor"));
    Process worker = site.worker_fed(sensor.path(), "live", {"--ring-rows", "400"});
    CHECK(server.wait_err("worker live joins with"));
    sensor.write("a,b,what\n" + rows(30, random));
    sensor.write("1.5,loud,low\n" + rows(900, random));
    CHECK(worker.wait_err("line 32, column 'b': 'loud' is not a number"));
    CHECK(worker.wait_err("publication 5 checksum"));
    CHECK(server.wait_err("fleet accuracy 0."));
    sensor.stop();
    CHECK(worker.wait_err("standard input has ended: 931 rows, 1 of them left out; "));
    const size_t so_far = worker.err().size();
    const uint64_t publication = checksums_of(worker.err()).rbegin()->first;
    CHECK(worker.wait_err_after(so_far,
                                format_text("publication %llu checksum",
                                            static_cast<unsigned long long>(publication) + 5)));
    worker.signal(SIGTERM);
    CHECK_MESSAGE(worker.wait_exit() == 0, worker.err());
    server.signal(SIGTERM);
    CHECK(server.wait_exit() == 0);
  }

  TEST_CASE("rows from standard input: a table that the run can't use ends the worker") {
    Site site;
    Process server = site.server_of(site.write("run.toml", kRun), {"--rounds", "100000"});
    Sensor sensor(site.file("sensor"));
    Process worker = site.worker_fed(sensor.path(), "live", {"--ring-rows", "400"});
    sensor.write("a,c,what\n1,2,low\n");
    CHECK(worker.wait_exit() == 2);
    CHECK_MESSAGE(worker.err().find("no column is named 'b'") != std::string::npos, worker.err());
    Process small = site.worker_fed("/dev/null", "small", {"--ring-rows", "50"});
    CHECK(small.wait_exit() == 2);
    CHECK(small.err().find("give --ring-rows 160 or more") != std::string::npos);
    server.signal(SIGTERM);
    CHECK(server.wait_exit() == 0);
  }
}
