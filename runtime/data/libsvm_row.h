// One line of LibSVM: "label index:value index:value ...", indices from 1 and ascending; '#' starts
// a comment.
//
// Source: C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines" (2011), README;
// the comments are those of T. Joachims' SVMlight.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/sparse_rows.h"

namespace paceline {

class LibsvmRow {
 public:
  // `rules` null: any index, and places are indices - 1.
  explicit LibsvmRow(const SparseRules* rules) : rules_(rules) {}

  // False: there is nothing on this line. The text must outlive what label() gives. Errors, with
  // the column: kCorrupt for this line alone; kUnsupported for several labels or a query group,
  // which the other lines will have as well.
  Result<bool> read(std::string_view line);

  std::string_view label() const { return label_; }
  float label_number() const { return label_number_; }
  // What is not 0, ascending by place.
  std::span<const SparseEntry> entries() const { return entries_; }
  // Their indices in the file: more than entries() where a hash brought some together.
  std::span<const uint32_t> indices() const { return indices_; }

 private:
  struct Word {
    std::string_view text;  // empty: the line has no more
    size_t column = 0;      // of its first byte, from 1
  };
  Word next_word();
  tl::unexpected<Status> fail_at(const Word& word, Code code, const std::string& why) const;
  Status read_entry(const Word& word);
  Result<uint32_t> place_of(const Word& word, uint32_t index) const;
  Status merge();

  const SparseRules* rules_;
  std::string_view line_;
  size_t position_ = 0;
  std::string_view label_;
  float label_number_ = 0;
  uint32_t last_index_ = 0;
  std::vector<SparseEntry> entries_;
  std::vector<uint32_t> indices_;
};

// Whether the first row of `text` looks like "1 3:0.5" or "2 qid:4 1:0.3".
bool looks_like_libsvm(std::string_view text);

}  // namespace paceline
