// CSV with a header, and ARFF: rows become float32 features and one label. Rows without any
// content are skipped and counted; what is skipped by the run's rules is counted, and the first of
// each kind is named. row_reader.h has the rules for a cell.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/data/class_list.h"
#include "runtime/data/csv_columns.h"
#include "runtime/data/formats.h"
#include "runtime/data/label_column.h"
#include "runtime/data/left_out.h"
#include "runtime/data/load.h"
#include "runtime/data/row_reader.h"
#include "runtime/data/text_table.h"

namespace paceline {

namespace {

class TableReader {
 public:
  // `schema` null: columns and classes as the file has them.
  TableReader(TextTable* table, TableColumns columns, const DataSchema* schema)
      : table_(*table),
        scanner_(table->scanner()),
        rows_(std::move(columns), scanner_.separator(), schema),
        schema_(schema) {
    if (schema == nullptr) {
      if (!table_.classes().empty()) classes_.emplace(table_.classes());
      return;
    }
    if (!schema->label_is_number()) classes_.emplace(schema->classes);
    if (schema->windows.used()) cutter_.emplace(schema->windows);
  }

  Status read_rows() {
    CsvRecord record;
    std::vector<float> features(rows_.feature_count());
    for (;;) {
      const Result<bool> more = scanner_.next(&record);
      if (!more) {
        PACELINE_TRY(pass_broken_line(more.error()));
        continue;
      }
      if (!*more) return Status();
      if (record.is_empty()) {
        ++empty_row_count_;
        continue;
      }
      ++row_count_;
      PACELINE_ASSIGN(const bool counts, take(&record, features));
      if (cutter_ && !counts) cutter_->leave_out();
      if (!counts) continue;
      const auto raw = std::as_bytes(std::span(features));
      values_.insert(values_.end(), raw.begin(), raw.end());
      ++taken_count_;
      if (cutter_ && cutter_->add(rows_.time_s()))
        first_rows_.push_back(static_cast<uint32_t>(taken_count_ - schema_->windows.span()));
    }
  }

  Result<Dataset> finish(uint32_t class_count) {
    if (row_count_ == 0) return fail(Code::kInvalidArgument, "a header, but no rows below it");
    if (values_.empty()) return nothing_left();
    LabelColumn::Classes classes{std::move(labels_), {}};
    if (classes_) {
      classes.names = classes_->names();
    } else if (numbers_.empty()) {
      PACELINE_ASSIGN(classes, own_labels_.finish(class_count));
    }
    const auto feature_count = static_cast<uint32_t>(rows_.feature_count());
    values_.shrink_to_fit();
    const auto found = static_cast<uint32_t>(classes.names.size());
    Dataset dataset(ElementType::kFloat32, std::move(values_), {feature_count},
                    std::move(classes.labels), std::max(class_count, found));
    if (!numbers_.empty()) dataset.set_numbers(std::move(numbers_));
    if (cutter_) PACELINE_TRY(make_windows(&dataset));
    dataset.column_names = rows_.columns().feature_names;
    dataset.class_names = std::move(classes.names);
    dataset.notes.insert(dataset.notes.begin(), rows_.columns().notes.begin(),
                         rows_.columns().notes.end());
    if (empty_row_count_ > 0)
      dataset.notes.push_back(format_text("rows without content, skipped: %zu", empty_row_count_));
    bad_.note("rows that can't be read, skipped", &dataset.notes);
    missing_.note("rows with a missing value, skipped", &dataset.notes);
    unknown_.note("rows whose label is no class of this run, refused", &dataset.notes);
    if (rows_.replaced_count() > 0)
      dataset.notes.push_back(format_text("missing values, the column's mean stands for them: %llu",
                                          static_cast<unsigned long long>(rows_.replaced_count())));
    return dataset;
  }

 private:
  std::string place(const CsvRecord& record, const std::string& text) const {
    return format_text("row %zu (line %zu)%s", row_count_, record.line, text.c_str());
  }

  // Whether the row counts; its features are then in `features`, its label with the others.
  Result<bool> take(CsvRecord* record, std::span<float> features) {
    std::optional<RowFault> wrong = table_.spread(record);
    if (!wrong) wrong = rows_.read(*record, features);
    if (!wrong) return add_label(*record);
    PACELINE_TRY(leave_out(*record, *wrong));
    return false;
  }

  Status make_windows(Dataset* dataset) {
    const WindowRules& rules = schema_->windows;
    if (first_rows_.empty())
      return fail(Code::kInvalidArgument,
                  "none of %zu rows makes a sample: one takes %u rows without a break, and the "
                  "longest such run has %llu; see data.window, data.horizon and data.gap_max",
                  row_count_, rules.span(),
                  static_cast<unsigned long long>(cutter_->longest_run()));
    dataset->notes.push_back(format_text("%zu windows of %u rows, of %zu rows with %llu breaks",
                                         first_rows_.size(), rules.rows, taken_count_,
                                         static_cast<unsigned long long>(cutter_->break_count())));
    dataset->set_windows(rules, std::move(first_rows_));
    return {};
  }

  // A line that can't be split into cells. An open quote takes the rest of the file with it.
  Status pass_broken_line(const Status& error) {
    const bool skip = schema_ != nullptr && schema_->skip_bad_rows &&
                      error.code() == Code::kCorrupt && !scanner_.quote_is_open();
    if (!skip) return error;
    ++row_count_;
    bad_.add(error.message());
    if (cutter_) cutter_->leave_out();
    scanner_.pass_line();
    return {};
  }

  Status leave_out(const CsvRecord& record, const RowFault& wrong) {
    const bool missing = wrong.kind == RowFault::Kind::kMissing;
    const bool skip = schema_ != nullptr &&
                      (missing ? schema_->missing != MissingRule::kError : schema_->skip_bad_rows);
    const std::string text = place(record, wrong.text);
    if (!skip) return fail(Code::kCorrupt, "%s", text.c_str());
    (missing ? missing_ : bad_).add(text);
    return {};
  }

  // False: the row does not count.
  Result<bool> add_label(const CsvRecord& record) {
    if (const std::optional<float> number = rows_.label_number()) {
      numbers_.push_back(*number);
      return true;
    }
    const std::string_view cell = rows_.label(record);
    const size_t column = rows_.columns().label_index;
    if (!classes_) {
      if (const Status status = own_labels_.add(cell); !status.ok())
        return fail(Code::kCorrupt, "%s",
                    place(record, rows_.fault(record, column, status.message()).text).c_str());
      return true;
    }
    if (const std::optional<int32_t> found = classes_->find(cell)) {
      labels_.push_back(*found);
      return true;
    }
    // What it was meant for is looked up once: a wrong column would ask for every row.
    const std::string hint = unknown_.count == 0 ? classes_->suggest(cell) : std::string();
    unknown_.add(
        unknown_.count > 0
            ? std::string()
            : place(record, rows_.fault(record, column, "is no class of this run" + hint).text));
    return false;
  }

  tl::unexpected<Status> nothing_left() const {
    for (const LeftOut* why : {&unknown_, &bad_, &missing_})
      if (why->count > 0)
        return fail(Code::kInvalidArgument, "none of %zu rows can be used; the first: %s",
                    row_count_, why->first.c_str());
    return fail(Code::kInvalidArgument, "no rows");
  }

  const TextTable& table_;
  CsvScanner& scanner_;
  RowReader rows_;
  const DataSchema* schema_;
  std::optional<ClassList> classes_;
  LabelColumn own_labels_;  // where the run names no classes
  std::vector<int32_t> labels_;
  std::vector<float> numbers_;  // labels that are numbers
  Bytes values_;
  std::optional<WindowCutter> cutter_;  // where a sample is several rows
  std::vector<uint32_t> first_rows_;    // of each window, in what was taken
  size_t taken_count_ = 0;
  size_t row_count_ = 0;
  size_t empty_row_count_ = 0;
  LeftOut bad_, missing_, unknown_;
};

}  // namespace

bool matches_csv(std::string_view, ByteSpan content) {
  const auto head = content.first(std::min<size_t>(content.size(), 4096));
  // UTF-16 holds zero bytes too, but deserves its own message.
  const bool utf16 = head.size() >= 2 && (head[0] == std::byte{0xFF} || head[0] == std::byte{0xFE});
  return utf16 || std::find(head.begin(), head.end(), std::byte{0}) == head.end();
}

Result<Dataset> read_csv(Bytes content, const ReadOptions& options) {
  if (!options.label_file.empty())
    return fail(Code::kInvalidArgument,
                "a text table has its label in a column; leave the label file %s out",
                options.label_file.c_str());
  if (options.schema != nullptr && options.schema->sparse.used())
    return fail(Code::kInvalidArgument, "the run takes sparse rows (LibSVM), this is a text table");
  PACELINE_ASSIGN(TextTable table, TextTable::open(text_of(content), options));
  PACELINE_ASSIGN(TableColumns columns, find_columns(table.header(), options));
  const bool by_name = options.schema != nullptr && options.schema->names_columns();
  TableReader reader(&table, std::move(columns), by_name ? options.schema : nullptr);
  PACELINE_TRY(reader.read_rows());
  return reader.finish(options.class_count);
}

bool matches_arff(std::string_view file_name, ByteSpan content) {
  if (file_name.ends_with(".gz")) file_name.remove_suffix(3);
  return file_name.ends_with(".arff") || looks_like_arff(text_of(content));
}

Result<Dataset> read_arff(Bytes content, const ReadOptions& options) {
  if (!looks_like_arff(text_of(content)))
    return fail(Code::kCorrupt, "an ARFF file starts with @relation, this one does not");
  return read_csv(std::move(content), options);
}

Status check_table_columns(ByteSpan content, const ReadOptions& options) {
  PACELINE_ASSIGN(const TextTable table, TextTable::open(text_of(content), options));
  PACELINE_ASSIGN(const TableColumns columns, find_columns(table.header(), options));
  return {};
}

}  // namespace paceline
