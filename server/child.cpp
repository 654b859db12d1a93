#include "server/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace paceline {

Result<Child> Child::start(const std::string& program, const std::vector<std::string>& arguments,
                           const std::string& log_file) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log_file.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  // The child does not inherit which signals this program handles by a thread; and Ctrl-C on the
  // terminal reaches this program alone, which ends its children in order.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    return fail(error == ENOENT ? Code::kNotFound : Code::kIo, "%s: %s", program.c_str(),
                std::strerror(error));
  return Child(pid);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      ended_(other.ended_),
      succeeded_(other.succeeded_),
      failed_(other.failed_),
      exit_text_(std::move(other.exit_text_)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(ended_, other.ended_);
  std::swap(succeeded_, other.succeeded_);
  std::swap(failed_, other.failed_);
  std::swap(exit_text_, other.exit_text_);
  return *this;
}

Child::~Child() {
  if (pid_ < 0 || ended_) return;
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
}

bool Child::ended() {
  int status = 0;
  if (!ended_ && pid_ >= 0 && waitpid(pid_, &status, WNOHANG) == pid_) take_status(status);
  return ended_;
}

void Child::take_status(int status) {
  ended_ = true;
  if (WIFSIGNALED(status)) {
    exit_text_ = format_text("killed by signal %d", WTERMSIG(status));
  } else {
    succeeded_ = WEXITSTATUS(status) == 0;
    failed_ = !succeeded_;
    exit_text_ = format_text("exit code %d", WEXITSTATUS(status));
  }
}

void Child::signal(int number) const {
  if (pid_ >= 0 && !ended_) kill(pid_, number);
}

}  // namespace paceline
