#include "runtime/worker/live_data.h"

#include <poll.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/log_limit.h"
#include "runtime/data/class_list.h"
#include "runtime/data/csv_columns.h"
#include "runtime/data/growing_file.h"
#include "runtime/data/row_reader.h"
#include "runtime/data/row_stream.h"

namespace paceline {

namespace {

constexpr size_t kInboxRowsMax = 4096;
constexpr TimeUs kSilenceUs = from_ms(10'000);
constexpr int kPollMs = 200;  // until a stop is noticed

}  // namespace

LiveData::~LiveData() {
  thread_.request_stop();
  room_.notify_all();
}

Status LiveData::start(const DataSchema& schema) {
  if (ring_)
    return fail(Code::kInvalidArgument,
                "the server has another run now, and the rows that came are read already; start "
                "this worker again");
  if (!schema.names_columns())
    return fail(Code::kInvalidArgument,
                "--data - needs a run whose [data] names columns and label");
  PACELINE_ASSIGN(ring_, RowRing::make(schema, rows_max_));
  schema_ = schema;
  thread_ = std::jthread([this](std::stop_token stop) { read(stop); });
  return {};
}

void LiveData::read(std::stop_token stop) {
  Status status = read_rows(stop);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  failure_ = std::move(status);
}

Status LiveData::read_rows(std::stop_token stop) {
  GrowingFile file("-", false);
  PACELINE_TRY(file.open());
  RowStream stream([&](std::string* text) -> Result<bool> {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (!stop.stop_requested())
      if (::poll(&input, 1, kPollMs) > 0) return file.more(text);
    return false;
  });
  Result<TableHeader> header = stream.header();
  // Nobody has written anything yet, and nobody will.
  if (!header) return stop.stop_requested() ? Status() : header.error();
  ReadOptions options;
  options.schema = &schema_;
  options.label_column = label_column_;
  PACELINE_ASSIGN(TableColumns columns, find_columns(*header, options));
  RowReader reader(std::move(columns), stream.separator(), &schema_);
  const ClassList classes(schema_.classes);
  std::vector<float> features(reader.feature_count());
  CsvRecord record;
  LogLimit lines;
  for (;;) {
    const Result<bool> more = stream.next(&record);
    if (!more && more.error().code() != Code::kCorrupt) return more.error();
    if (more && !*more) return {};
    std::string wrong;
    RingRow row;
    if (!more) {
      wrong = more.error().message();
    } else if (const std::optional<RowFault> fault = reader.read(record, features)) {
      wrong = format_text("line %zu%s", record.line, fault->text.c_str());
    } else if (schema_.label_is_number()) {
      row.number = reader.label_number().value_or(0);
    } else if (const std::optional<int32_t> label = classes.find(reader.label(record))) {
      row.label = *label;
    } else {
      const size_t column = reader.columns().label_index;
      wrong = format_text("line %zu", record.line) +
              reader.fault(record, column, "is no class of this run").text;
    }
    if (!wrong.empty())
      if (const std::optional<std::string> held_back = lines.pass(monotonic_now_us()))
        log_warning("standard input: %s; left out%s", wrong.c_str(), held_back->c_str());
    row.time_s = reader.time_s();
    if (!put(stop, wrong.empty(), features, row)) return {};
  }
}

// False: it is time to stop.
bool LiveData::put(std::stop_token stop, bool counts, std::span<const float> features,
                   const RingRow& row) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, stop, [this] { return inbox_.rows.size() < kInboxRowsMax; });
  if (stop.stop_requested()) return false;
  inbox_.features.insert(inbox_.features.end(), features.begin(), features.end());
  inbox_.rows.push_back(row);
  inbox_.counts.push_back(counts);
  return true;
}

Status LiveData::take(TimeUs now) {
  if (!ring_) return {};
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    std::swap(inbox_, taken_);
    ended = ended_;
    PACELINE_TRY(failure_);
  }
  room_.notify_all();
  const size_t columns = schema_.columns.size();
  for (size_t i = 0; i < taken_.rows.size(); ++i) {
    RingRow& row = taken_.rows[i];
    row.features = std::span(taken_.features).subspan(i * columns, columns);
    if (taken_.counts[i])
      ring_->add(row);
    else
      ring_->leave_out();
    left_out_count_ += !taken_.counts[i];
  }
  say_if_silent(taken_.rows.size(), ended, now);
  taken_.features.clear();
  taken_.rows.clear();
  taken_.counts.clear();
  return {};
}

void LiveData::say_if_silent(size_t taken, bool ended, TimeUs now) {
  if (taken > 0 || last_row_at_ == kNever) {
    if (silence_said_) log_info("rows come again on standard input");
    silence_said_ = false;
    last_row_at_ = now;
    return;
  }
  if (ended) {
    if (!end_said_)
      log_warning("standard input has ended: %s; going on with these", text().c_str());
    end_said_ = true;
  } else if (!silence_said_ && now - last_row_at_ >= kSilenceUs) {
    log_warning("no row on standard input for %.0f s: %s; going on with these, waiting for more",
                to_seconds(now - last_row_at_), text().c_str());
    silence_said_ = true;
  }
}

std::string LiveData::text() const {
  if (!ring_) return "no rows yet";
  return format_text("%llu rows, %llu of them left out; %zu training windows and %zu held out",
                     static_cast<unsigned long long>(ring_->row_count() + left_out_count_),
                     static_cast<unsigned long long>(left_out_count_), ring_->training().size(),
                     ring_->held_out().size());
}

}  // namespace paceline
