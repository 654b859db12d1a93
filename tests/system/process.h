// A program that a test starts: its two streams in files, its end always waited for.
//
// Nothing here sleeps for luck: wait_*() looks for a condition again and again until a deadline,
// which only bounds how long a failure takes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::test {

inline constexpr int kPatienceMs = 60'000;

struct ProcessOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::string
      log;  // streams go to LOG.out and LOG.err; appended, so a restarted program keeps both
  std::string input = "/dev/null";  // a FIFO has to be open for writing already
};

class Process {
 public:
  explicit Process(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills and reaps

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // SIGKILL, and waits: afterwards its sockets are closed and its locks free.
  void kill_hard();
  bool running();

  // The exit code; 128 + number if a signal ended it; -1 if it has not ended after so long.
  int wait_exit(int within_ms = kPatienceMs);

  // What it has written so far.
  std::string out() const;
  std::string err() const;
  // False if the program ended, or the time passed, before `text` was there.
  bool wait_out(std::string_view text, int within_ms = kPatienceMs);
  bool wait_err(std::string_view text, int within_ms = kPatienceMs);
  // The same for text in what was written after the first `offset` bytes of stderr.
  bool wait_err_after(size_t offset, std::string_view text, int within_ms = kPatienceMs);

 private:
  std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_ = -1;
};

// The whole file; empty if there is none.
std::string file_text(const std::string& path);

// Runs a program to its end.
struct Finished {
  int exit = -1;
  std::string out;
  std::string err;
};
Finished run_program(const ProcessOptions& options);

// From then on orphans of this program's children become its own: a process that somebody left
// behind can be found.
void adopt_orphans();
// False while there is any child or orphan. Reaps them, so every Process must have been waited for.
bool no_process_left();

// Waits until `condition()` holds, looking every few milliseconds. False after `within_ms`.
bool wait_until(const std::function<bool()>& condition, int within_ms = kPatienceMs);

std::vector<std::string> lines_of(std::string_view text);
// Its last lines, for the message of a failed check.
std::string tail_of(std::string_view text);

}  // namespace paceline::test
