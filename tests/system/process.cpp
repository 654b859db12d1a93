#include "tests/system/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/clock.h"

namespace paceline::test {

namespace {

// Not fork(): this program may hold sockets of NNG, which does not survive one.
pid_t spawn(const ProcessOptions& options) {
  std::vector<char*> argv = {const_cast<char*>(options.program.c_str())};
  for (const std::string& argument : options.arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string out = options.log + ".out", err = options.log + ".err";
  const int flags = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, options.input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), flags, 0600);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, options.program.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  PACELINE_CHECK(error == 0);
  return pid;
}

}  // namespace

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Process::Process(const ProcessOptions& options) : log_(options.log), pid_(spawn(options)) {}

Process::Process(Process&& other) noexcept
    : log_(std::move(other.log_)),
      pid_(std::exchange(other.pid_, -1)),
      ended_(other.ended_),
      exit_(other.exit_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(log_, other.log_);
  std::swap(pid_, other.pid_);
  std::swap(ended_, other.ended_);
  std::swap(exit_, other.exit_);
  return *this;
}

Process::~Process() { kill_hard(); }

void Process::signal(int number) const {
  if (pid_ > 0 && !ended_) kill(pid_, number);
}

void Process::kill_hard() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  while (running() && wait_exit() < 0) {
  }
}

bool Process::running() {
  int status = 0;
  if (!ended_ && pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    exit_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return !ended_;
}

int Process::wait_exit(int within_ms) {
  return wait_until([this] { return !running(); }, within_ms) ? exit_ : -1;
}

std::string Process::out() const { return file_text(log_ + ".out"); }
std::string Process::err() const { return file_text(log_ + ".err"); }

bool Process::wait_out(std::string_view text, int within_ms) {
  bool found = false;
  wait_until(
      [&] {
        const bool last_look = !running();
        found = out().find(text) != std::string::npos;
        return found || last_look;
      },
      within_ms);
  return found;
}

bool Process::wait_err(std::string_view text, int within_ms) {
  return wait_err_after(0, text, within_ms);
}

bool Process::wait_err_after(size_t offset, std::string_view text, int within_ms) {
  bool found = false;
  wait_until(
      [&] {
        const bool last_look = !running();
        found = err().find(text, offset) != std::string::npos;
        return found || last_look;
      },
      within_ms);
  return found;
}

Finished run_program(const ProcessOptions& options) {
  Process process(options);
  Finished finished;
  finished.exit = process.wait_exit();
  finished.out = process.out();
  finished.err = process.err();
  return finished;
}

void adopt_orphans() { PACELINE_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); }

bool no_process_left() {
  pid_t reaped = 0;
  do reaped = waitpid(-1, nullptr, WNOHANG);
  while (reaped > 0);
  return reaped < 0 && errno == ECHILD;
}

bool wait_until(const std::function<bool()>& condition, int within_ms) {
  const TimeUs deadline = monotonic_now_us() + from_ms(within_ms);
  while (!condition()) {
    if (monotonic_now_us() > deadline) return false;
    usleep(5'000);
  }
  return true;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string tail_of(std::string_view text) {
  constexpr size_t kLines = 25;
  const std::vector<std::string> lines = lines_of(text);
  std::string tail;
  for (size_t i = lines.size() < kLines ? 0 : lines.size() - kLines; i < lines.size(); ++i)
    tail += "\n  " + lines[i];
  return tail;
}

}  // namespace paceline::test
