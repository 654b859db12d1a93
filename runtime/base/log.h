// One line per event on stderr: what happened, to whom, and why. stdout belongs to data.
//
// Safe from several threads; a line is written by one call, so lines never mix. Below the level
// that is set nothing is formatted.
#pragma once

#include <string_view>

namespace paceline {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void set_log_level(LogLevel level);
// "debug", "info", "warning", "error"; the rest is kInfo.
void set_log_level(std::string_view name);
LogLevel log_level();

// Text before every message of this process, such as "worker greenhouse". Set it before threads
// start.
void set_log_name(const char* name);

[[gnu::format(printf, 1, 2)]] void log_debug(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void log_info(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void log_warning(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void log_error(const char* format, ...);

}  // namespace paceline
