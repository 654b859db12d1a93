#include "runtime/base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <string>

#include "runtime/base/limits.h"

namespace paceline {

namespace {

std::atomic<LogLevel> current_level{LogLevel::kInfo};
std::string process_name;

void write_line(const char* level, const char* format, va_list arguments) {
  char line[kLogLineBytesMax];
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  int used = std::snprintf(line, sizeof line, "%02d:%02d:%02d.%03ld %s %s%s", utc.tm_hour,
                           utc.tm_min, utc.tm_sec, now.tv_nsec / 1'000'000, level,
                           process_name.c_str(), process_name.empty() ? "" : ": ");
  const int room = static_cast<int>(sizeof line) - 1;
  if (used > room) used = room;
  const int text =
      std::vsnprintf(line + used, sizeof line - static_cast<size_t>(used), format, arguments);
  if (text > 0) used = used + text < room ? used + text : room - 1;
  line[used++] = '\n';
  std::fwrite(line, 1, static_cast<size_t>(used), stderr);
}

}  // namespace

void set_log_level(LogLevel level) { current_level = level; }
void set_log_level(std::string_view name) {
  set_log_level(name == "debug"     ? LogLevel::kDebug
                : name == "warning" ? LogLevel::kWarning
                : name == "error"   ? LogLevel::kError
                                    : LogLevel::kInfo);
}
LogLevel log_level() { return current_level; }
void set_log_name(const char* name) { process_name = name; }

#define PACELINE_LOG_FUNCTION(function, level, word) \
  void function(const char* format, ...) {           \
    if (current_level.load() > level) return;        \
    va_list arguments;                               \
    va_start(arguments, format);                     \
    write_line(word, format, arguments);             \
    va_end(arguments);                               \
  }

PACELINE_LOG_FUNCTION(log_debug, LogLevel::kDebug, "debug")
PACELINE_LOG_FUNCTION(log_info, LogLevel::kInfo, "info ")
PACELINE_LOG_FUNCTION(log_warning, LogLevel::kWarning, "warn ")
PACELINE_LOG_FUNCTION(log_error, LogLevel::kError, "error")

#undef PACELINE_LOG_FUNCTION

}  // namespace paceline
