#include "runtime/data/libsvm_row.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "runtime/data/load.h"
#include "runtime/data/number_text.h"

namespace paceline {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::optional<uint32_t> parse_index(std::string_view text) {
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

}  // namespace

LibsvmRow::Word LibsvmRow::next_word() {
  while (position_ < line_.size() && is_blank(line_[position_])) ++position_;
  const size_t begin = position_;
  while (position_ < line_.size() && !is_blank(line_[position_])) ++position_;
  return {line_.substr(begin, position_ - begin), begin + 1};
}

tl::unexpected<Status> LibsvmRow::fail_at(const Word& word, Code code,
                                          const std::string& why) const {
  return fail(code, "column %zu: %s %s", word.column, quote_for_message(word.text).c_str(),
              why.c_str());
}

Result<bool> LibsvmRow::read(std::string_view line) {
  line_ = line.substr(0, line.find('#'));
  position_ = 0;
  last_index_ = 0;
  entries_.clear();
  indices_.clear();
  const Word label = next_word();
  if (label.text.empty()) return false;
  if (label.text.find(',') != std::string_view::npos)
    return fail_at(label, Code::kUnsupported, "are several labels of one row; keep one");
  const std::optional<float> number = parse_float32(label.text);
  if (!number)
    return fail_at(label, Code::kCorrupt, "is no label; a row is: label index:value index:value");
  label_ = label.text;
  label_number_ = *number;
  for (Word word = next_word(); !word.text.empty(); word = next_word())
    PACELINE_TRY(read_entry(word));
  PACELINE_TRY(merge());
  return true;
}

Status LibsvmRow::read_entry(const Word& word) {
  const size_t colon = word.text.find(':');
  const std::string_view name = word.text.substr(0, colon);
  if (colon != std::string_view::npos && name == "qid")
    return fail_at(word, Code::kUnsupported, "is a query group of a ranking; take qid out");
  const std::optional<uint32_t> index = parse_index(name);
  if (colon == std::string_view::npos || !index)
    return fail_at(word, Code::kCorrupt, "is not index:value");
  if (*index == 0) return fail_at(word, Code::kCorrupt, "has index 0; indices count from 1");
  if (*index <= last_index_)
    return fail_at(word, Code::kCorrupt,
                   format_text("comes after index %u; indices ascend", last_index_));
  last_index_ = *index;
  const std::optional<float> value = parse_float32(word.text.substr(colon + 1));
  if (!value) return fail_at(word, Code::kCorrupt, "has no value that is a number of float32");
  PACELINE_ASSIGN(const uint32_t place, place_of(word, *index));
  if (*value == 0) return {};
  entries_.push_back({place, *value});
  indices_.push_back(*index);
  return {};
}

Result<uint32_t> LibsvmRow::place_of(const Word& word, uint32_t index) const {
  if (rules_ == nullptr) return index - 1;
  if (const std::optional<uint32_t> place = rules_->place_of(index)) return *place;
  return fail_at(
      word, Code::kCorrupt,
      format_text("has an index above the run's data.features, %u", rules_->feature_count));
}

// Features that a hash brings together add up, the smaller values first.
Status LibsvmRow::merge() {
  if (rules_ == nullptr) return {};
  std::sort(entries_.begin(), entries_.end(), [](const SparseEntry& a, const SparseEntry& b) {
    return a.place != b.place ? a.place < b.place : a.value < b.value;
  });
  size_t count = 0;
  for (const SparseEntry& entry : entries_) {
    if (count == 0 || entries_[count - 1].place != entry.place) {
      entries_[count++] = entry;
      continue;
    }
    float& sum = entries_[count - 1].value;
    sum += entry.value;
    if (!std::isfinite(sum))
      return fail(Code::kCorrupt, "values that share a place add up beyond float32");
  }
  entries_.resize(count);
  if (count > rules_->non_zeros_max)
    return fail(Code::kCorrupt,
                "%zu values that are not 0, at most %u; raise the run's data.non_zeros and "
                "model.input, or let data.bad_rows skip such rows",
                count, rules_->non_zeros_max);
  return {};
}

bool looks_like_libsvm(std::string_view text) {
  const auto next = [&]() {  // word of the first row
    const size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
    const size_t end = std::min(text.find_first_of(" \t\r\n#", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    text.remove_prefix(end);
    return word;
  };
  std::string_view label = next();
  while (label.empty() && !text.empty()) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    label = next();
  }
  const std::string_view entry = next();
  const size_t colon = entry.find(':');
  return parse_float32(label) && colon != std::string_view::npos &&
         (entry.substr(0, colon) == "qid" || parse_index(entry.substr(0, colon)));
}

}  // namespace paceline
