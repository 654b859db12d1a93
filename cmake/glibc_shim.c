// Functions that archives built against glibc 2.38 or later call and an older glibc lacks. Only the
// missing ones are compiled in (dependencies.cmake checks), so a newer C library keeps its own.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef PACELINE_NEED_strlcpy
size_t strlcpy(char* to, const char* from, size_t to_bytes);
size_t strlcpy(char* to, const char* from, size_t to_bytes) {
  const size_t length = strlen(from);
  if (to_bytes > 0) {
    const size_t copied = length < to_bytes ? length : to_bytes - 1;
    memcpy(to, from, copied);
    to[copied] = '\0';
  }
  return length;
}
#endif

// C23's strtol also reads the prefix 0b; no caller in the archives passes base 0 with such text.
#ifdef PACELINE_NEED___isoc23_strtol
long __isoc23_strtol(const char* text, char** end, int base);
long __isoc23_strtol(const char* text, char** end, int base) { return strtol(text, end, base); }
#endif

#ifdef PACELINE_NEED___isoc23_strtoull
unsigned long long __isoc23_strtoull(const char* text, char** end, int base);
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return strtoull(text, end, base);
}
#endif
