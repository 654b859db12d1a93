// `edge_server demo` on a small data set in MNIST's four files.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "runtime/base/random.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr uint32_t kSide = 28;

void put_number(std::string* out, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out->push_back(static_cast<char>(value >> shift));
}

// Images with one bright line at the height of their class.
void write_images(const std::string& folder, const std::string& prefix, uint32_t count) {
  Random random(3, count);
  std::string images, labels;
  put_number(&images, 0x803);
  for (const uint32_t length : {count, kSide, kSide}) put_number(&images, length);
  put_number(&labels, 0x801);
  put_number(&labels, count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t label = random.below(10);
    labels.push_back(static_cast<char>(label));
    for (uint32_t row = 0; row < kSide; ++row)
      images.append(kSide, static_cast<char>(row / 2 == label ? 200 + random.below(50) : 0));
  }
  std::ofstream(folder + prefix + "-images-idx3-ubyte.gz", std::ios::binary) << images;
  std::ofstream(folder + prefix + "-labels-idx1-ubyte.gz", std::ios::binary) << labels;
}

struct DemoSite {
  Site site;
  std::string data = site.file("data/");
  std::string out = site.file("out");

  DemoSite() {
    std::filesystem::create_directory(data);
    write_images(data, "train", 10'100);  // half of them are the server's control set
    write_images(data, "t10k", 200);
  }
  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"demo", "--data-folder", data, "--out", out, "--workers", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Runs until both workers are at work.
  Process start() {
    Process demo = site.start_server(arguments({"--seconds", "600"}), "demo");
    REQUIRE_MESSAGE(wait_until([&] { return started() || !demo.running(); }), tail_of(demo.err()));
    REQUIRE_MESSAGE(demo.running(), tail_of(demo.err()));
    return demo;
  }
  bool started() const {
    for (const char* board : {"1", "2"})
      if (file_text(out + "/paceline-board" + board + ".log").find(": publication ") ==
          std::string::npos)
        return false;
    return true;
  }
};

}  // namespace

TEST_SUITE("system/demo") {
  TEST_CASE("a demo of so many rounds ends with table, plot and model, and leaves no process") {
    const DemoSite demo;
    Process process = demo.site.start_server(demo.arguments({"--rounds", "15"}), "demo");
    CHECK_MESSAGE(process.wait_exit() == 0, tail_of(process.err()));
    CHECK(process.out().find("accuracy") != std::string::npos);
    for (const char* name : {"/model.safetensors", "/summary.json", "/accuracy.svg"})
      CHECK_MESSAGE(!file_text(demo.out + name).empty(), name);
    CHECK(wait_until(no_process_left));
  }

  TEST_CASE("Ctrl-C of a demo ends it in order: a saved model, exit 0, no process left") {
    for (const int number : {SIGINT, SIGTERM}) {
      DemoSite demo;
      Process process = demo.start();
      process.signal(number);
      CHECK_MESSAGE(process.wait_exit() == 0, tail_of(process.err()));
      CHECK(!file_text(demo.out + "/model.safetensors").empty());
      CHECK(wait_until(no_process_left));
    }
  }

  TEST_CASE("a demo that is killed takes its workers with it") {
    DemoSite demo;
    Process process = demo.start();
    process.kill_hard();
    CHECK(wait_until(no_process_left));
  }

  TEST_CASE("a demo with a wrong option or without data says which and starts nothing") {
    const DemoSite demo;
    struct Wrong {
      std::string option, value, words;
    };
    const Wrong wrongs[] = {{"--pace", "compot", "compat"},
                            {"--codec", "s2r", "s1r"},
                            {"--freq", "fixed:0", "fixed"},
                            {"--link", "fast", "1mbit"},
                            {"--data-folder", "/nowhere", "/nowhere"},
                            {"--worker", "/bin/false", " ended (exit code 1)"},
                            {"--worker", "/nowhere", "/nowhere"}};
    for (const Wrong& wrong : wrongs) {
      CAPTURE(wrong.option);
      std::vector<std::string> arguments = demo.arguments({wrong.option, wrong.value});
      if (wrong.option == "--data-folder")
        arguments = {"demo", "--out", demo.out, wrong.option, wrong.value};
      Process process = demo.site.start_server(arguments, "wrong" + wrong.option);
      CHECK_MESSAGE(process.wait_exit() == 2, process.err());
      const std::vector<std::string> lines = lines_of(process.err());
      REQUIRE(!lines.empty());
      CHECK_MESSAGE(lines.back().find(wrong.words) != std::string::npos, process.err());
      CHECK(wait_until(no_process_left));
    }
  }
}
