// Expected failures as values.
//
// A Status says what went wrong, which thing it happened to and how to mend it. A Result<T> is a T
// or such a Status. Broken invariants of our own are not expected failures: check.h stops the
// program.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace paceline {

enum class Code {
  kOk,
  kInvalidArgument,    // the caller or the user asked for something that can't be
  kCorrupt,            // bytes that are not what their format says
  kNotFound,           // a file, a name or a peer that is not there
  kUnavailable,        // the other side can't be reached now; trying again is right
  kTimeout,            // no answer in time: what happened is unknown
  kRefused,            // the other side understood and said no
  kResourceExhausted,  // a stated bound would be passed
  kIo,                 // the operating system reported an error
  kUnsupported,        // a known thing that this build or machine can't do
};

const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  // So that `return fail(...)` serves in functions that give a Status as well as a Result<T>.
  Status(tl::unexpected<Status> error);  // NOLINT(google-explicit-constructor)

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // "corrupt: layer 3: payload 17 bytes, need 20"
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <class T>
using Result = tl::expected<T, Status>;

// printf-style text, checked by the compiler.
[[gnu::format(printf, 1, 2)]] std::string format_text(const char* format, ...);

inline Status::Status(tl::unexpected<Status> error) { *this = std::move(error).value(); }

// What a function returns that gives a Status or a Result<T>: an error with a printf-style message,
// or somebody else's error.
[[gnu::format(printf, 2, 3)]] tl::unexpected<Status> fail(Code code, const char* format, ...);
inline tl::unexpected<Status> fail(Status status) {
  return tl::unexpected<Status>(std::move(status));
}

}  // namespace paceline

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

// Leaves the enclosing function with the error of an expression that gives a Status.
#define PACELINE_TRY(expression)                                  \
  do {                                                            \
    if (::paceline::Status status_ = (expression); !status_.ok()) \
      return ::paceline::fail(std::move(status_));                \
  } while (false)

// Declares `variable` from an expression that gives a Result<T>, or leaves the enclosing function,
// with its error.
#define PACELINE_ASSIGN(variable, expression) \
  PACELINE_ASSIGN_INNER(variable, expression, PACELINE_CONCAT(result_, __LINE__))
#define PACELINE_ASSIGN_INNER(variable, expression, result)        \
  auto result = (expression);                                      \
  if (!result) return ::paceline::fail(std::move(result).error()); \
  variable = std::move(*result)
