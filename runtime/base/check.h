// Broken invariants stop the program: file, line, the condition and a reason, then abort.
//
// For mistakes of our own only. What a user, a file or a peer can cause is a Status (status.h).
#pragma once

namespace paceline {

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace paceline

// Always on.
#define PACELINE_CHECK(condition) \
  ((condition) ? (void)0 : ::paceline::check_failed(__FILE__, __LINE__, #condition))

// For hot loops: on in debug and sanitizer builds.
#ifdef NDEBUG
#define PACELINE_DCHECK(condition) ((void)0)
#else
#define PACELINE_DCHECK(condition) PACELINE_CHECK(condition)
#endif
