// Worker processes that this server's own process starts, for the demo and tests on one machine.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

class Child {
 public:
  // Starts `program` with `arguments` (without the program's name); its stdout and stderr are
  // appended to `log_file`. Uses posix_spawn: NNG forbids fork once it runs.
  static Result<Child> start(const std::string& program, const std::vector<std::string>& arguments,
                             const std::string& log_file);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills and reaps

  pid_t pid() const { return pid_; }
  // True once it has ended; `exit_text()` then tells how.
  bool ended();
  const std::string& exit_text() const { return exit_text_; }
  bool succeeded() const { return succeeded_; }
  // It gave up by itself: neither success nor a signal, so starting it again would not help.
  bool failed() const { return failed_; }
  void signal(int number) const;

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  void take_status(int status);

  pid_t pid_ = -1;
  bool ended_ = false;
  bool succeeded_ = false;
  bool failed_ = false;
  std::string exit_text_;
};

}  // namespace paceline
