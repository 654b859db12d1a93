#include "runtime/base/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::TempFolder;

Bytes bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

bool names(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string::npos;
}

}  // namespace

TEST_SUITE("base/files") {
  TEST_CASE("read: gives back what was written, also nothing at all") {
    const TempFolder folder;
    for (const std::string& text : {std::string(), std::string("a"), std::string(200'000, 'x')}) {
      REQUIRE(write_file_atomically(folder.file("f"), bytes_of(text)).ok());
      const Result<Bytes> read = read_file(folder.file("f"), text.size());
      REQUIRE(read.has_value());
      CHECK(*read == bytes_of(text));
    }
    CHECK_FALSE(std::filesystem::exists(folder.file("f.partial")));
  }

  TEST_CASE("read: one byte above the bound is kResourceExhausted and names the file") {
    const TempFolder folder;
    const std::string path = folder.write("big", std::string(1000, 'x'));
    const Result<Bytes> read = read_file(path, 999);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code() == Code::kResourceExhausted);
    CHECK(names(read.error(), path));
  }

  TEST_CASE("read: a pipe is read to its end and held to the bound") {
    const TempFolder folder;
    const std::string path = folder.file("pipe");
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    for (const uint64_t bytes_max : {uint64_t{300'000}, uint64_t{299'999}}) {
      std::thread writer([&] {
        std::ofstream stream(path, std::ios::binary);
        stream << std::string(300'000, 'y') << std::flush;
      });
      const Result<Bytes> read = read_file(path, bytes_max);
      if (read) CHECK(read->size() == 300'000);
      CHECK(read.has_value() == (bytes_max == 300'000));
      writer.join();
    }
  }

  TEST_CASE("read: a missing file is kNotFound, a folder kIo, both with path and reason") {
    const TempFolder folder;
    const Result<Bytes> missing = read_file(folder.file("none"), 10);
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code() == Code::kNotFound);
    CHECK(names(missing.error(), folder.file("none") + ": No such file"));
    const Result<Bytes> directory = read_file(folder.file("."), 10'000'000);
    REQUIRE_FALSE(directory.has_value());
    CHECK(directory.error().code() == Code::kIo);
  }

  TEST_CASE("write: a failure leaves the old file and no partial one") {
    const TempFolder folder;
    const std::string path = folder.write("kept", "old");
    CHECK_FALSE(write_file_atomically(path + "/below-a-file", bytes_of("new")).ok());
    // A folder stands where the file should go: the rename fails after a complete write.
    std::filesystem::create_directory(folder.file("taken"));
    const Status status = write_file_atomically(folder.file("taken"), bytes_of("new"));
    CHECK_FALSE(status.ok());
    CHECK(names(status, folder.file("taken")));
    CHECK_FALSE(std::filesystem::exists(folder.file("taken.partial")));
    CHECK(read_file(path, 3).value() == bytes_of("old"));
  }

  TEST_CASE("write: what a crash left behind is overwritten, a planted link is not followed") {
    const TempFolder folder;
    folder.write("f.partial", "half a file that is longer than the new one");
    REQUIRE(write_file_atomically(folder.file("f"), bytes_of("new")).ok());
    CHECK(read_file(folder.file("f"), 100).value() == bytes_of("new"));
    const std::string victim = folder.write("victim", "safe");
    REQUIRE(symlink(victim.c_str(), folder.file("f.partial").c_str()) == 0);
    CHECK_FALSE(write_file_atomically(folder.file("f"), bytes_of("again")).ok());
    CHECK(read_file(victim, 100).value() == bytes_of("safe"));
  }
}

}  // namespace paceline
