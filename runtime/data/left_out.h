// Rows that were left out for one reason, for one line at the end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct LeftOut {
  size_t count = 0;
  std::string first;

  void add(const std::string& where) {
    if (count++ == 0) first = where;
  }
  void note(const char* what, std::vector<std::string>* notes) const {
    if (count > 0)
      notes->push_back(format_text("%s: %zu (the first: %s)", what, count, first.c_str()));
  }
};

}  // namespace paceline
