#include "runtime/base/status.h"

#include <cstdarg>
#include <cstdio>

namespace paceline {

namespace {

std::string format_list(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kNotFound:
      return "not found";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kTimeout:
      return "timed out";
    case Code::kRefused:
      return "refused";
    case Code::kResourceExhausted:
      return "limit reached";
    case Code::kIo:
      return "i/o error";
    case Code::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

std::string Status::to_string() const {
  return ok() ? "ok" : std::string(code_name(code_)) + ": " + message_;
}

std::string format_text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_list(format, arguments);
  va_end(arguments);
  return text;
}

tl::unexpected<Status> fail(Code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status(code, format_list(format, arguments));
  va_end(arguments);
  return tl::unexpected<Status>(std::move(status));
}

}  // namespace paceline
