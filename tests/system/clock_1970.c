// Preloaded into a program: a board without a clock, that has just booted.
#define _POSIX_C_SOURCE 200809L
#include <time.h>

time_t time(time_t* out) {
  struct timespec since_boot;
  clock_gettime(CLOCK_MONOTONIC, &since_boot);
  const time_t now = since_boot.tv_sec % 1000;
  if (out) *out = now;
  return now;
}
