// LibSVM files: rows become sparse features and one label. libsvm_row.h has the rules for a line.
#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/data/class_list.h"
#include "runtime/data/formats.h"
#include "runtime/data/label_column.h"
#include "runtime/data/left_out.h"
#include "runtime/data/libsvm_row.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

class LibsvmReader {
 public:
  // `schema` null: classes as the file has them, and any index.
  explicit LibsvmReader(const DataSchema* schema)
      : schema_(schema), row_(schema != nullptr ? &schema->sparse : nullptr) {
    if (schema != nullptr && !schema->label_is_number()) classes_.emplace(schema->classes);
  }

  Status read_rows(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    while (!text.empty()) {
      ++line_;
      const size_t end = std::min(text.find('\n'), text.size());
      const Result<bool> found = row_.read(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!found)
        PACELINE_TRY(leave_out(found.error()));
      else if (*found)
        PACELINE_TRY(take_row());
    }
    return {};
  }

  Result<Dataset> finish(uint32_t class_count) {
    if (rows_.row_count() == 0) return nothing_left();
    LabelColumn::Classes classes{std::move(labels_), {}};
    if (classes_) {
      classes.names = classes_->names();
    } else if (numbers_.empty()) {
      PACELINE_ASSIGN(classes, own_labels_.finish(class_count));
    }
    rows_.shrink_to_fit();
    const auto longest = static_cast<uint32_t>(std::max<size_t>(longest_row_, 1));
    const auto found = static_cast<uint32_t>(classes.names.size());
    Dataset dataset(std::move(rows_), schema_ != nullptr ? schema_->sparse.non_zeros_max : longest,
                    std::move(classes.labels), std::max(class_count, found));
    if (!numbers_.empty()) dataset.set_numbers(std::move(numbers_));
    dataset.class_names = std::move(classes.names);
    note_features(&dataset.notes);
    if (empty_row_count_ > 0)
      dataset.notes.push_back(format_text("rows without a value, all 0: %zu", empty_row_count_));
    bad_.note("rows that can't be read, skipped", &dataset.notes);
    unknown_.note("rows whose label is no class of this run, refused", &dataset.notes);
    return dataset;
  }

 private:
  tl::unexpected<Status> fail_here(const Status& error) const {
    return fail(error.code(), "line %zu, %s", line_, error.message().c_str());
  }

  Status leave_out(const Status& error) {
    const bool skip =
        schema_ != nullptr && schema_->skip_bad_rows && error.code() == Code::kCorrupt;
    if (!skip) return fail_here(error);
    bad_.add(fail_here(error).value().message());
    return {};
  }

  Status take_row() {
    if (row_.entries().size() > kNonZerosMax)
      return fail(Code::kResourceExhausted, "line %zu: more than %u values that are not 0", line_,
                  kNonZerosMax);
    if (schema_ == nullptr) {
      if (const Status status = own_labels_.add(row_.label()); !status.ok())
        return fail_here(status);
    } else if (!classes_) {
      numbers_.push_back(row_.label_number());
    } else if (const std::optional<int32_t> known = classes_->find(row_.label())) {
      labels_.push_back(*known);
    } else {
      const std::string hint = unknown_.count == 0 ? classes_->suggest(row_.label()) : "";
      unknown_.add(format_text("line %zu: %s%s", line_, quote_for_message(row_.label()).c_str(),
                               hint.c_str()));
      return {};
    }
    longest_row_ = std::max(longest_row_, row_.entries().size());
    empty_row_count_ += row_.entries().empty();
    indices_.insert(indices_.end(), row_.indices().begin(), row_.indices().end());
    rows_.add(row_.entries());
    return {};
  }

  // How many features there are, and how many of them a hash brings together.
  void note_features(std::vector<std::string>* notes) {
    std::ranges::sort(indices_);
    indices_.erase(std::unique(indices_.begin(), indices_.end()), indices_.end());
    if (indices_.empty()) return;
    std::string text = format_text("%zu different features, indices %u to %u", indices_.size(),
                                   indices_.front(), indices_.back());
    if (schema_ != nullptr && schema_->sparse.hash_bits > 0) {
      // Of the file no more than the places is needed now.
      for (uint32_t& index : indices_) index = *schema_->sparse.place_of(index);
      std::ranges::sort(indices_);
      size_t sharing = 0;
      for (size_t i = 0; i < indices_.size(); ++i)
        sharing += (i > 0 && indices_[i - 1] == indices_[i]) ||
                   (i + 1 < indices_.size() && indices_[i + 1] == indices_[i]);
      text += format_text("; hashed to %u places, where %zu of them share one with another",
                          schema_->sparse.feature_count, sharing);
    }
    notes->push_back(std::move(text));
  }

  tl::unexpected<Status> nothing_left() const {
    for (const LeftOut* why : {&unknown_, &bad_})
      if (why->count > 0)
        return fail(Code::kInvalidArgument, "no row can be used; the first: %s",
                    why->first.c_str());
    return fail(Code::kInvalidArgument, "no rows");
  }

  const DataSchema* schema_;
  LibsvmRow row_;
  size_t line_ = 0;
  std::vector<uint32_t> indices_;  // of all rows
  size_t longest_row_ = 0;
  size_t empty_row_count_ = 0;
  SparseRows rows_;
  std::optional<ClassList> classes_;
  LabelColumn own_labels_;  // where the run names no classes
  std::vector<int32_t> labels_;
  std::vector<float> numbers_;  // labels that are numbers
  LeftOut bad_, unknown_;
};

}  // namespace

bool matches_libsvm(std::string_view file_name, ByteSpan content) {
  constexpr size_t kHeadBytesMax = 4096;
  if (file_name.ends_with(".gz")) file_name.remove_suffix(3);
  if (file_name.ends_with(".svm") || file_name.ends_with(".libsvm")) return true;
  return looks_like_libsvm(text_of(content.first(std::min(content.size(), kHeadBytesMax))));
}

Result<Dataset> read_libsvm(Bytes content, const ReadOptions& options) {
  if (!options.label_file.empty())
    return fail(Code::kInvalidArgument, "a LibSVM file has its labels in it; leave the file %s out",
                options.label_file.c_str());
  if (options.schema != nullptr && options.schema->names_columns())
    return fail(Code::kInvalidArgument,
                "the run names columns, and sparse rows (LibSVM) have none; its [data] would need "
                "features or hash_bits in their place");
  const bool by_run = options.schema != nullptr && options.schema->sparse.used();
  LibsvmReader reader(by_run ? options.schema : nullptr);
  PACELINE_TRY(reader.read_rows(text_of(content)));
  return reader.finish(options.class_count);
}

}  // namespace paceline
