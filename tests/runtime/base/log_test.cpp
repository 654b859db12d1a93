#include "runtime/base/log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "tests/support/temp_folder.h"

using namespace paceline;

namespace {

// The lines that `write` puts on stderr.
template <class Write>
std::vector<std::string> lines_of(Write write) {
  const test::TempFolder folder;
  const std::string path = folder.file("stderr");
  std::fflush(stderr);
  const int kept = dup(2);
  FILE* file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  REQUIRE(dup2(fileno(file), 2) == 2);
  write();
  std::fflush(stderr);
  dup2(kept, 2);
  close(kept);
  std::fclose(file);
  const Bytes bytes = read_file(path, 1 << 20).value();
  std::istringstream stream(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_SUITE("base/log") {
  TEST_CASE("a level lets its own lines and graver ones pass, and off lets none") {
    const LogLevel before = log_level();
    const auto all = [] {
      log_debug("d");
      log_info("i");
      log_warning("w");
      log_error("e");
    };
    const auto count = [&](LogLevel level) {
      return lines_of([&] {
               set_log_level(level);
               all();
             })
          .size();
    };
    CHECK(count(LogLevel::kDebug) == 4);
    CHECK(count(LogLevel::kInfo) == 3);
    CHECK(count(LogLevel::kWarning) == 2);
    CHECK(count(LogLevel::kError) == 1);
    CHECK(count(LogLevel::kOff) == 0);
    set_log_level("nonsense");
    CHECK(log_level() == LogLevel::kInfo);
    set_log_level(before);
  }

  TEST_CASE("a message of any length is one bounded line") {
    const std::string text(5000, 'x');
    const std::vector<std::string> lines = lines_of([&] { log_error("%s", text.c_str()); });
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() < kLogLineBytesMax);
    CHECK(lines[0].find("error xxx") != std::string::npos);
  }

  TEST_CASE("lines of several threads never mix") {
    const std::vector<std::string> lines = lines_of([] {
      std::vector<std::thread> threads;
      for (char name = 'a'; name < 'e'; ++name)
        threads.emplace_back([name] {
          const std::string text(200, name);
          for (int i = 0; i < 50; ++i) log_error("%s", text.c_str());
        });
      for (std::thread& thread : threads) thread.join();
    });
    CHECK(lines.size() == 200);
    for (const std::string& line : lines) {
      const std::string text = line.substr(line.size() - 200);
      CHECK(text.find_first_not_of(text[0]) == std::string::npos);
    }
  }
}
