#include "tests/system/site.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"

namespace paceline::test {

namespace {
constexpr uint32_t kFeatures = 8;
constexpr uint32_t kClasses = 3;
}  // namespace

std::string RunText::text() const {
  return format_text(
      "[model]\ninput = [%u]\nclasses = %u\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n"
      "[training]\nbatch = 32\nrate = 0.05\nmomentum = 0.9\nseed = 5\n"
      "[communication]\npace = \"%s\"\nfreq = \"%s\"\ncodec_up = \"%s\"\ncodec_down = \"%s\"\n"
      "[server]\nmin_workers = %u\nheartbeat_ms = %u\nexchange_deadline_ms = %u\n"
      "checkpoint_ms = %u\n",
      kFeatures, kClasses, hidden, kClasses, pace.c_str(), freq.c_str(), codec_up.c_str(),
      codec_down.c_str(), min_workers, heartbeat_ms, exchange_deadline_ms, checkpoint_ms);
}

Site::Site() {
  adopt_orphans();
  // What whoever runs the tests has joined plays no part.
  setenv("HOME", folder_.file("home").c_str(), 1);
}

Process Site::server(const RunText& run, const std::vector<std::string>& arguments,
                     const std::string& address) {
  return server_of(write("run.toml", run.text()), arguments, address);
}

Process Site::server_of(const std::string& run_file, const std::vector<std::string>& arguments,
                        const std::string& address) {
  std::vector<std::string> all = {"serve", run_file, "--listen", address, "--log", "debug"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const size_t known = file_text(file("server.out")).size();
  Process process({PACELINE_EDGE_SERVER, all, file("server")});
  const std::string word = "listening on ";
  const auto listens = [&] { return process.out().find('\n', known) != std::string::npos; };
  REQUIRE_MESSAGE(wait_until([&] { return listens() || !process.running(); }), process.err());
  const std::string text = process.out().substr(known);
  REQUIRE_MESSAGE(text.starts_with(word), process.err());
  address_ = text.substr(word.size(), text.find('\n') - word.size());
  return process;
}

std::string Site::data(const std::string& name, uint32_t rows) {
  Random random(7, crc32c(std::as_bytes(std::span(name))));
  std::string text = "a,b,c,d,e,f,g,h,kind\n";
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t kind = random.below(kClasses);
    for (uint32_t i = 0; i < kFeatures; ++i) {
      const float center = i % kClasses == kind ? 0.8f : -0.2f;
      const float noise = random.symmetric() + random.symmetric() + random.symmetric();
      text += format_text("%.4f,", static_cast<double>(center + noise));
    }
    text += format_text("%llu\n", static_cast<unsigned long long>(kind));
  }
  return write(name + ".csv", text);
}

Process Site::worker(const std::string& name, const std::vector<std::string>& arguments) {
  return dial({PACELINE_EDGE_WORKER}, address_, name, arguments);
}

Process Site::worker_at(const std::string& address, const std::string& name,
                        const std::vector<std::string>& arguments) {
  return dial({PACELINE_EDGE_WORKER}, address, name, arguments);
}

Process Site::worker_by(const std::vector<std::string>& program, const std::string& name) {
  return dial(program, address_, name, {});
}

Process Site::dial(std::vector<std::string> program, const std::string& address,
                   const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = std::move(program);
  all.insert(all.end(), {address, "--name", name, "--log", "debug"});
  if (std::ranges::find(arguments, "--data") == arguments.end())
    all.insert(all.end(), {"--data", data(name)});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return Process({all.front(), {all.begin() + 1, all.end()}, file(name)});
}

Process Site::start_worker(const std::vector<std::string>& arguments,
                           const std::string& log) const {
  return Process({PACELINE_EDGE_WORKER, arguments, file(log)});
}

Process Site::start_server(const std::vector<std::string>& arguments,
                           const std::string& log) const {
  return Process({PACELINE_EDGE_SERVER, arguments, file(log)});
}

void Site::append(const std::string& name, std::string_view text) const {
  std::ofstream(file(name), std::ios::binary | std::ios::app) << text;
}

Finished Site::run_server(const std::vector<std::string>& arguments) {
  return run_program({PACELINE_EDGE_SERVER, arguments, file(format_text("run%u", ++runs_))});
}

Finished Site::run_worker(const std::vector<std::string>& arguments) {
  return run_program({PACELINE_EDGE_WORKER, arguments, file(format_text("run%u", ++runs_))});
}

std::map<uint64_t, std::string> checksums_of(const std::string& log) {
  static const std::regex line("publication ([0-9]+) checksum ([0-9a-f]{8})\n");
  std::map<uint64_t, std::string> checksums;
  for (std::sregex_iterator found(log.begin(), log.end(), line), end; found != end; ++found)
    checksums[std::stoull((*found)[1])] = (*found)[2];
  return checksums;
}

std::string last_model(const std::string& log) {
  static const std::regex words("publication [0-9]+, checksum [0-9a-f]{8}");
  std::string last;
  for (std::sregex_iterator found(log.begin(), log.end(), words), end; found != end; ++found)
    last = found->str();
  return last;
}

uint64_t newest_publication(const std::string& log) {
  const std::map<uint64_t, std::string> all = checksums_of(log);
  return all.empty() ? 0 : all.rbegin()->first;
}

}  // namespace paceline::test
