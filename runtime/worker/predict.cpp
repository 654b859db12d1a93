#include "runtime/worker/predict.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>

#include "runtime/base/files.h"
#include "runtime/base/json_text.h"
#include "runtime/base/limits.h"
#include "runtime/base/safetensors.h"
#include "runtime/base/utf8.h"
#include "runtime/data/class_list.h"
#include "runtime/data/growing_file.h"
#include "runtime/data/libsvm_row.h"
#include "runtime/data/row_reader.h"
#include "runtime/data/row_stream.h"
#include "runtime/data/schema.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training.h"

namespace paceline {

namespace {

constexpr uint64_t kModelFileBytesMax = kModelElementsMax * sizeof(float) + (uint64_t{16} << 20);

struct Model {
  RunSpec run;
  DataSchema schema;
  std::vector<float> parameters;
};

tl::unexpected<Status> fail_in(const std::string& path, const Status& status) {
  return fail(status.code(), "%s: %s", path.c_str(), status.message().c_str());
}

Result<std::string> run_text_of(const PredictOptions& options, const Safetensors& file) {
  if (!options.run_file.empty()) {
    PACELINE_ASSIGN(const Bytes bytes, read_file(options.run_file, kRunTextBytesMax));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const auto found = file.metadata().find("run");
  if (found == file.metadata().end())
    return fail(Code::kInvalidArgument,
                "%s does not hold its run's description; give it with --run run.toml",
                options.model_file.c_str());
  return found->second;
}

Result<Model> load_model(const PredictOptions& options) {
  PACELINE_ASSIGN(Bytes bytes, read_file(options.model_file, kModelFileBytesMax));
  Result<Safetensors> file = Safetensors::parse(std::move(bytes));
  if (!file) return fail_in(options.model_file, file.error());
  PACELINE_ASSIGN(const std::string text, run_text_of(options, *file));
  const std::string& source = options.run_file.empty() ? options.model_file : options.run_file;
  Model model;
  const auto read = [&]() -> Status {
    PACELINE_ASSIGN(model.run, parse_run(text));
    PACELINE_ASSIGN(model.schema, parse_data_schema(text));
    if (!model.schema.reads_rows())
      return fail(Code::kInvalidArgument,
                  "its [data] names no columns and no label, so nobody knows what the model's "
                  "inputs are; add them to a copy of the run and give it with --run");
    const ModelSpec& net = model.run.model;
    return model.schema.check_model(net.input_features(), net.class_count, net.output_count,
                                    net.sparse_entries());
  };
  if (const Status status = read(); !status.ok()) return fail_in(source, status);
  Result<std::vector<float>> parameters = file->parameters(model.run.model.layout);
  if (!parameters) return fail_in(options.model_file, parameters.error());
  model.parameters = std::move(*parameters);
  return model;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n# ") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

struct Answer {
  size_t line = 0;
  double micros = 0;
  // Of classes.
  int32_t label = 0;
  float probability = 0;
  std::optional<int32_t> truth;
  // Of numbers, in the label's units.
  double value = 0;
  std::optional<float> true_value;
  std::optional<float> last_value;  // of a forecast: what it starts from
};

// How far answers that are numbers are off, in the label's units.
class NumberScore {
 public:
  void add(double value, double truth) {
    ++count_;
    squares_ += (value - truth) * (value - truth);
    // Welford's way: one pass, and exact enough where the mean is far from 0.
    const double from_mean = truth - mean_;
    mean_ += from_mean / static_cast<double>(count_);
    spread_ += from_mean * (truth - mean_);
  }
  // Beside it: how far off it is to say that nothing changes.
  void add_same_as_last(double last, double truth) {
    last_squares_ += (last - truth) * (last - truth);
  }
  size_t count() const { return count_; }
  double rmse_same_as_last() const {
    return std::sqrt(last_squares_ / static_cast<double>(count_));
  }
  double rmse() const { return std::sqrt(squares_ / static_cast<double>(count_)); }
  // The share of the rows' own variance that the answers explain; below 0 where their mean is
  // better.
  double r2() const { return spread_ > 0 ? 1 - squares_ / spread_ : 0; }

 private:
  size_t count_ = 0;
  double squares_ = 0, last_squares_ = 0, mean_ = 0, spread_ = 0;
};

// For answers windows end where they end; what is forecast is still to come.
WindowRules without_horizon(WindowRules rules) {
  rules.horizon = 0;
  return rules;
}

std::string shown_name(const PredictOptions& options) {
  return options.data_file == "-" ? "standard input" : options.data_file;
}

constexpr int32_t kNoLabel = -1;

double micros_since(std::chrono::steady_clock::time_point begin) {
  const auto passed = std::chrono::steady_clock::now() - begin;
  return std::chrono::duration<double, std::micro>(passed).count();
}

class Predictor {
 public:
  Predictor(const PredictOptions& options, const PredictOutput& output, Model model,
            std::unique_ptr<Trainer> trainer)
      : options_(options),
        output_(output),
        model_(std::move(model)),
        trainer_(std::move(trainer)),
        classes_(model_.schema.classes),
        outputs_(model_.run.model.output_count),
        windows_(without_horizon(model_.schema.windows)),
        spans_(model_.schema.windows),
        labels_(model_.schema.windows.rows, kNoLabel),
        label_counts_(model_.schema.classes.size()) {}

  Status run(RowStream* stream) {
    PACELINE_ASSIGN(const TableHeader header, stream->header());
    ReadOptions read;
    read.schema = &model_.schema;
    read.label_column = options_.label_column;
    read.label_optional = true;
    PACELINE_ASSIGN(TableColumns columns, find_columns(header, read));
    RowReader rows(std::move(columns), stream->separator(), &model_.schema, false);
    has_truth_ = rows.has_label();
    say_columns();
    CsvRecord record;
    std::vector<float> features(rows.feature_count());
    recent_.resize(features.size() * model_.schema.windows.rows);
    sample_.resize(recent_.size());
    for (;;) {
      const Result<bool> more = stream->next(&record);
      if (!more && more.error().code() != Code::kCorrupt) return more.error();
      if (more && !*more) break;
      ++row_count_;
      std::string wrong;
      if (!more)
        wrong = more.error().message();
      else if (const std::optional<RowFault> fault = rows.read(record, features))
        wrong = format_text("line %zu", record.line) + fault->text;
      if (wrong.empty())
        PACELINE_TRY(take(record, rows, features));
      else
        complain(wrong);
    }
    return finish();
  }

  // LibSVM, a row a line.
  Status run_sparse(GrowingFile* data) {
    has_truth_ = true;
    say_columns();
    sample_.resize(static_cast<size_t>(model_.run.model.input_features()));
    LibsvmRow row(&model_.schema.sparse);
    std::string text;
    size_t begin = 0;
    for (size_t line = 1;; ++line) {
      size_t end = text.find('\n', begin);
      while (end == std::string::npos) {
        text.erase(0, std::exchange(begin, 0));
        if (text.size() > RowStream::kLineBytesMax)
          return fail(Code::kResourceExhausted, "line %zu: more than %zu bytes", line,
                      RowStream::kLineBytesMax);
        const size_t searched = text.size();
        PACELINE_ASSIGN(const bool more, data->more(&text));
        end = more ? text.find('\n', searched) : text.size();
      }
      if (begin == text.size()) return finish();
      PACELINE_TRY(take_sparse(std::string_view(text).substr(begin, end - begin), line, &row));
      begin = std::min(end + 1, text.size());
    }
  }

 private:
  // A row that counts: it may end a window, and it may be what an earlier window's answer foretold.
  Status take(const CsvRecord& record, const RowReader& rows, std::span<const float> features) {
    ++taken_count_;
    std::shift_left(recent_.begin(), recent_.end(), static_cast<std::ptrdiff_t>(features.size()));
    std::ranges::copy(features, recent_.end() - static_cast<std::ptrdiff_t>(features.size()));
    if (!numbers() && has_truth_) {
      std::shift_left(labels_.begin(), labels_.end(), 1);
      labels_.back() = classes_.find(rows.label(record)).value_or(kNoLabel);
    }
    if (windows_.add(rows.time_s())) PACELINE_TRY(answer(record, rows));
    if (forecasts() && spans_.add(rows.time_s())) judge_forecast(rows);
    return {};
  }

  Status take_sparse(std::string_view text, size_t line, LibsvmRow* row) {
    const Result<bool> found = row->read(text);
    if (found && !*found) return {};
    ++row_count_;
    if (!found) {
      complain(format_text("line %zu, %s", line, found.error().message().c_str()));
      return {};
    }
    Answer answer;
    answer.line = line;
    const auto begin = std::chrono::steady_clock::now();
    lay_out_sparse(row->entries(), sample_);
    PACELINE_TRY(trainer_->predict(model_.parameters, sample_, outputs_));
    answer.micros = micros_since(begin);
    labels_.back() = classes_.find(row->label()).value_or(kNoLabel);
    if (numbers())
      take_number(row->label_number(), &answer);
    else
      take_class(&answer);
    output_.answer(options_.json ? json_line(answer) : csv_line(answer));
    return {};
  }

  Status answer(const CsvRecord& record, const RowReader& rows) {
    Answer answer;
    answer.line = record.line;
    const auto begin = std::chrono::steady_clock::now();
    lay_out_window(recent_, recent_.size() / model_.schema.windows.rows, model_.schema.scale,
                   model_.schema.offset, sample_);
    PACELINE_TRY(trainer_->predict(model_.parameters, sample_, outputs_));
    answer.micros = micros_since(begin);
    if (numbers())
      take_number(rows.label_number(), &answer);
    else
      take_class(&answer);
    output_.answer(options_.json ? json_line(answer) : csv_line(answer));
    return {};
  }

  bool numbers() const { return model_.schema.label_is_number(); }

  bool forecasts() const { return model_.schema.forecasts(); }

  void take_class(Answer* answer) {
    const auto best = std::ranges::max_element(outputs_);
    answer->label = static_cast<int32_t>(best - outputs_.begin());
    answer->probability = *best;
    if (std::ranges::find(labels_, kNoLabel) != labels_.end()) return;
    answer->truth = label_of_window(labels_, label_counts_);
    ++judged_count_;
    right_count_ += *answer->truth == answer->label;
  }

  void take_number(std::optional<float> truth, Answer* answer) {
    const DataSchema& schema = model_.schema;
    answer->value = (static_cast<double>(outputs_[0]) - static_cast<double>(schema.label_offset)) /
                    static_cast<double>(schema.label_scale);
    if (!has_truth_) return;
    if (forecasts()) {
      answer->last_value = truth;
      open_.push_back({taken_count_, answer->value, answer->last_value});
      return;
    }
    answer->true_value = truth;
    if (answer->true_value) score_.add(answer->value, static_cast<double>(*answer->true_value));
  }

  void judge_forecast(const RowReader& rows) {
    const uint64_t asked_at = taken_count_ - model_.schema.windows.horizon;
    while (!open_.empty() && open_.front().row < asked_at) open_.pop_front();
    if (open_.empty() || open_.front().row != asked_at) return;
    const std::optional<float> truth = rows.label_number();
    if (!truth || !open_.front().last) return;
    score_.add(open_.front().value, static_cast<double>(*truth));
    score_.add_same_as_last(static_cast<double>(*open_.front().last), static_cast<double>(*truth));
  }

  void complain(const std::string& what) {
    ++failed_count_;
    windows_.leave_out();
    spans_.leave_out();
    output_.complain(shown_name(options_) + ": " + what + "\n");
  }

  const std::string& name(int32_t label) const {
    return classes_.names()[static_cast<size_t>(label)];
  }

  std::string csv_line(const Answer& answer) const {
    if (numbers()) {
      std::string line = format_text("%zu,%.6g,%.1f", answer.line, answer.value, answer.micros);
      const std::optional<float>& known = forecasts() ? answer.last_value : answer.true_value;
      if (has_truth_) line += ",";
      if (known) line += format_text("%.6g", static_cast<double>(*known));
      return line + "\n";
    }
    std::string line =
        format_text("%zu,%s,%.4f,%.1f", answer.line, csv_cell(name(answer.label)).c_str(),
                    static_cast<double>(answer.probability), answer.micros);
    if (has_truth_) line += "," + (answer.truth ? csv_cell(name(*answer.truth)) : std::string());
    return line + "\n";
  }

  std::string json_line(const Answer& answer) const {
    if (numbers()) {
      std::string line = format_text(R"({"line":%zu,"value":%.6g,"us":%.1f)", answer.line,
                                     answer.value, answer.micros);
      if (answer.true_value)
        line += format_text(",\"truth\":%.6g", static_cast<double>(*answer.true_value));
      if (answer.last_value)
        line += format_text(",\"last\":%.6g", static_cast<double>(*answer.last_value));
      return line + "}\n";
    }
    std::string line = format_text(R"({"line":%zu,"label":%s,"probability":%.4f,"us":%.1f)",
                                   answer.line, json_quoted(name(answer.label)).c_str(),
                                   static_cast<double>(answer.probability), answer.micros);
    if (answer.truth) line += ",\"truth\":" + json_quoted(name(*answer.truth));
    return line + "}\n";
  }

  Status finish() const {
    say_score();
    if (failed_count_ == 0) return {};
    return fail(Code::kCorrupt, "%s: %zu of %zu rows could not be read",
                shown_name(options_).c_str(), failed_count_, row_count_);
  }

  void say_columns() const {
    if (options_.json) return;
    output_.answer(std::string(numbers() ? "line,value,us" : "line,label,probability,us") +
                   (!has_truth_   ? "\n"
                    : forecasts() ? ",last\n"
                                  : ",truth\n"));
  }

  void say_score() const {
    const std::string beside = !forecasts()
                                   ? std::string()
                                   : format_text(options_.json ? ",\"rmse_same_as_last\":%.6g"
                                                               : ", same as last: rmse %.6g",
                                                 score_.rmse_same_as_last());
    if (score_.count() > 0)
      output_.answer(format_text(options_.json ? "{\"rmse\":%.6g,\"r2\":%.4f%s,\"rows\":%zu}\n"
                                               : "# rmse %.6g, r2 %.4f%s: %zu rows\n",
                                 score_.rmse(), score_.r2(), beside.c_str(), score_.count()));
    if (judged_count_ == 0) return;
    const double share = static_cast<double>(right_count_) / static_cast<double>(judged_count_);
    output_.answer(options_.json ? format_text("{\"accuracy\":%.4f,\"right\":%zu,\"rows\":%zu}\n",
                                               share, right_count_, judged_count_)
                                 : format_text("# accuracy %.4f: %zu of %zu rows\n", share,
                                               right_count_, judged_count_));
  }

  const PredictOptions& options_;
  const PredictOutput& output_;
  Model model_;
  std::unique_ptr<Trainer> trainer_;
  ClassList classes_;
  std::vector<float> outputs_;  // probabilities, or a number
  WindowCutter windows_, spans_;
  std::vector<float> recent_;    // the newest rows, as many as a window has
  std::vector<int32_t> labels_;  // theirs
  std::vector<uint32_t> label_counts_;
  std::vector<float> sample_;
  struct OpenForecast {
    uint64_t row;
    double value;
    std::optional<float> last;
  };
  std::deque<OpenForecast> open_;  // whose row has not come yet
  uint64_t taken_count_ = 0;
  bool has_truth_ = false;
  size_t row_count_ = 0, failed_count_ = 0, judged_count_ = 0, right_count_ = 0;
  NumberScore score_;
};

}  // namespace

Status predict_rows(const PredictOptions& options, const PredictOutput& output) {
  PACELINE_ASSIGN(Model model, load_model(options));
  PACELINE_ASSIGN(std::unique_ptr<Trainer> trainer,
                  make_trainer(model.run.model, 1, options.backend, model.run.training.loss));
  GrowingFile data(options.data_file, options.follow);
  PACELINE_TRY(data.open());
  RowStream stream([&](std::string* text) { return data.more(text); });
  const bool sparse = model.schema.sparse.used();
  Predictor predictor(options, output, std::move(model), std::move(trainer));
  const Status status = sparse ? predictor.run_sparse(&data) : predictor.run(&stream);
  if (status.ok() || status.message().starts_with(shown_name(options))) return status;
  return fail_in(shown_name(options), status);
}

}  // namespace paceline
