#include "tests/faults/fleet.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include "runtime/base/check.h"
#include "tests/system/run_text.h"

namespace paceline::test {

namespace {

constexpr int kEndPatienceMs = 60'000;

bool has(std::string_view line, std::string_view words) {
  return line.find(words) != std::string_view::npos;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

bool stands_still(pid_t pid) {
  // pid (name) state ...
  const std::string stat = file_text(format_text("/proc/%d/stat", pid));
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end + 1, 2, " T") == 0;
}

}  // namespace

Fleet::Fleet(FleetOptions options, History* history)
    : options_(std::move(options)), history_(*history), run_file_(options_.folder + "/run.toml") {
  write_text(run_file_, options_.run_text);
}

void Fleet::add_board(const std::string& name, const std::string& state_folder,
                      std::vector<std::string> arguments) {
  const std::string data = options_.folder + "/" + name + ".csv";
  write_text(data, cloud_rows(name, 200));
  Board board;
  board.name = name;
  board.state_folder = state_folder;
  board.arguments = std::move(arguments);
  Result<std::unique_ptr<Proxy>> proxy =
      Proxy::start({.target = address_, .seed = options_.seed, .stream = boards_.size()});
  PACELINE_CHECK(proxy.has_value());
  board.proxy = std::move(*proxy);
  for (const std::string& word :
       {std::string("--name"), name, std::string("--data"), data, std::string("--state"),
        state_folder, std::string("--log"), std::string("debug")})
    board.arguments.push_back(word);
  boards_.push_back(std::move(board));
}

void Fleet::start_board(Board& board) {
  const std::string log =
      format_text("%s/%s.%u", options_.folder.c_str(), board.name.c_str(), ++board.lives);
  std::vector<std::string> arguments = {board.proxy->address()};
  arguments.insert(arguments.end(), board.arguments.begin(), board.arguments.end());
  board.life.emplace(Life{Process({options_.edge_worker, arguments, log}), LogTail(log + ".err")});
  board.paused_until = 0;
}

Status Fleet::start_server(const std::string& rounds) {
  const std::string log = format_text("%s/server.%u", options_.folder.c_str(), ++server_lives_);
  journal_in_trouble_ = false;
  went_on_from_.clear();
  last_words_.clear();
  const TimeUs began = monotonic_now_us();
  server_.emplace(Life{
      Process({options_.edge_server,
               {"serve", run_file_, "--listen", "127.0.0.1:0", "--state", options_.state_folder,
                "--journal", options_.journal, "--rounds", rounds, "--log", "debug"},
               log}),
      LogTail(log + ".err")});
  const std::string words = "listening on tcp://";
  std::string said;
  const bool listens = wait_for(
      [&] {
        said = server_->process.out();
        return said.ends_with('\n') || !server_->process.running();
      },
      kStartPatienceMs);
  if (!listens || !said.starts_with(words)) {
    std::string last = tail_of(server_->process.err());
    return fail(Code::kUnavailable, "the server does not start: %s", last.c_str());
  }
  restart_s_max_ = std::max(restart_s_max_, to_seconds(monotonic_now_us() - began));
  address_ = said.substr(words.size(), said.find('\n') - words.size());
  for (Board& board : boards_) board.proxy->set_target(address_);
  return {};
}

void Fleet::kill_server() {
  server_->process.kill_hard();
  read_logs();
}

Status Fleet::stop_server() {
  server_->process.signal(SIGTERM);
  const int exit = server_->process.wait_exit(kEndPatienceMs);
  read_logs();
  if (exit == 0) return {};
  std::string last = tail_of(server_->process.err());
  return fail(Code::kUnavailable, "the server ended with %d: %s", exit, last.c_str());
}

void Fleet::pause(Process& process) {
  process.signal(SIGSTOP);
  wait_until([&] { return stands_still(process.pid()); });
}

void Fleet::read_logs() {
  if (server_) server_->log.read([this](std::string_view line) { read_server_line(line); });
  for (Board& board : boards_) {
    if (!board.life) continue;
    board.life->log.read([&](std::string_view line) {
      history_.read_worker_line(board.name, line);
      if (has(line, ": publication ") && has(line, " checksum ")) ++board.publications_taken;
    });
  }
}

void Fleet::read_server_line(std::string_view line) {
  if (has(line, "stopped: publication ") || has(line, "the run is over: publication "))
    last_words_ = line.substr(line.rfind("publication "));
  else if (has(line, ": publication ") && has(line, " checksum "))
    ++publications_made_;
  else if (has(line, "the journal failed"))
    journal_in_trouble_ = true;
  else if (has(line, "what is granted is durable"))
    journal_in_trouble_ = false;
  else if (has(line, "going on from "))
    went_on_from_ = line.substr(line.find(": generation ") + 2);
}

bool Fleet::wait_for(const std::function<bool()>& condition, int within_ms) {
  return wait_until(
      [&] {
        read_logs();
        return condition();
      },
      within_ms);
}

}  // namespace paceline::test
