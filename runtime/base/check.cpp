#include "runtime/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paceline {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "paceline: %s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace paceline
