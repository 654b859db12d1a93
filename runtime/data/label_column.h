// Numbers the classes of a CSV file's label column.
//
// Whole numbers from 0 to kClassesMax - 1 are class numbers as they stand: a board that has never
// seen class 3 still calls class 4 four. Anything else is a name, and classes are numbered in the
// order of their names (numbers by value, text by bytes).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/class_list.h"

namespace paceline {

class LabelColumn {
 public:
  // Labels are called in order, one a row; the cell must not be empty.
  // Errors: kCorrupt for text that is not UTF-8; kResourceExhausted beyond kClassesMax classes.
  Status add(std::string_view cell);

  struct Classes {
    std::vector<int32_t> labels;  // one a row
    std::vector<std::string> names;
  };
  // class_count  bound of class numbers or of the number of names; 0: none
  // Errors: kCorrupt naming the first row (from 1) whose label is out of bounds or a number that is
  // not whole.
  Result<Classes> finish(uint32_t class_count);

 private:
  struct Name {
    std::string text;
    size_t first_row;
  };

  Result<Classes> finish_numbers(const std::vector<int64_t>& values, uint32_t class_count);
  Classes renumber(const std::vector<int32_t>& class_of_name, std::vector<std::string> names);

  TextMap<int32_t> index_of_;
  std::vector<Name> names_;  // in order of their first row
  std::vector<int32_t> rows_;
};

}  // namespace paceline
