#include "runtime/worker/predict.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "runtime/base/files.h"
#include "runtime/base/json_text.h"
#include "runtime/base/limits.h"
#include "runtime/base/safetensors.h"
#include "runtime/base/utf8.h"
#include "runtime/data/class_list.h"
#include "runtime/data/gzip.h"
#include "runtime/data/load.h"
#include "runtime/data/row_reader.h"
#include "runtime/data/row_stream.h"
#include "runtime/data/schema.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training.h"

namespace paceline {

namespace {

constexpr uint64_t kModelFileBytesMax = kModelElementsMax * sizeof(float) + (uint64_t{16} << 20);
constexpr uint64_t kDataBytesMax = uint64_t{1} << 30;  // unpacked at once
constexpr size_t kReadBytes = 64 * 1024;
constexpr std::chrono::milliseconds kFollowEvery(200);

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
    if (!model.schema.names_columns())
      return fail(Code::kInvalidArgument,
                  "its [data] names no columns and no label, so nobody knows what the model's "
                  "inputs are; add them to a copy of the run and give it with --run");
    const ModelSpec& net = model.run.model;
    return model.schema.check_model(net.input_features(), net.class_count, net.output_count);
  };
  if (const Status status = read(); !status.ok()) return fail_in(source, status);
  Result<std::vector<float>> parameters = file->parameters(model.run.model.layout);
  if (!parameters) return fail_in(options.model_file, parameters.error());
  model.parameters = std::move(*parameters);
  return model;
}

// Bytes of a file or of standard input as they come.
class DataFile {
 public:
  explicit DataFile(const PredictOptions& options) : options_(options) {}
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile() {
    if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  }

  Status open() {
    if (options_.data_file == "-") {
      descriptor_ = STDIN_FILENO;
      return {};
    }
    descriptor_ = ::open(options_.data_file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0)
      return fail(errno == ENOENT ? Code::kNotFound : Code::kIo, "open %s: %s",
                  options_.data_file.c_str(), std::strerror(errno));
    return {};
  }

  Result<bool> more(std::string* text) {
    for (;;) {
      PACELINE_ASSIGN(const size_t count, read_some(text));
      if (first_ && count > 0) {
        first_ = false;
        if (is_gzip(std::as_bytes(std::span(*text)))) return unpack(text);
      }
      if (count > 0) return true;
      if (!options_.follow || unpacked_) return false;
      std::this_thread::sleep_for(kFollowEvery);
    }
  }

 private:
  Result<size_t> read_some(std::string* text) {
    if (unpacked_) return size_t{0};
    const size_t before = text->size();
    text->resize(before + kReadBytes);
    ssize_t count = 0;
    do count = ::read(descriptor_, text->data() + before, kReadBytes);
    while (count < 0 && errno == EINTR);
    const int reason = errno;
    text->resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0)
      return fail(Code::kIo, "read %s: %s", options_.data_file.c_str(), std::strerror(reason));
    return static_cast<size_t>(count);
  }

  // Packed data has an end: all of it at once.
  Result<bool> unpack(std::string* text) {
    for (;;) {
      PACELINE_ASSIGN(const size_t count, read_some(text));
      if (count == 0) break;
      if (text->size() > kDataBytesMax)
        return fail(Code::kResourceExhausted, "%s: too large", options_.data_file.c_str());
    }
    Result<Bytes> content = gunzip(std::as_bytes(std::span(*text)), kDataBytesMax);
    if (!content) return fail_in(options_.data_file, content.error());
    text->assign(reinterpret_cast<const char*>(content->data()), content->size());
    unpacked_ = true;
    return true;
  }

  const PredictOptions& options_;
  int descriptor_ = -1;
  bool first_ = true;
  bool unpacked_ = false;
};

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
  size_t count() const { return count_; }
  double rmse() const { return std::sqrt(squares_ / static_cast<double>(count_)); }
  // The share of the rows' own variance that the answers explain; below 0 where their mean is
  // better.
  double r2() const { return spread_ > 0 ? 1 - squares_ / spread_ : 0; }

 private:
  size_t count_ = 0;
  double squares_ = 0, mean_ = 0, spread_ = 0;
};

std::string shown_name(const PredictOptions& options) {
  return options.data_file == "-" ? "standard input" : options.data_file;
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
        outputs_(model_.run.model.output_count) {}

  Status run(RowStream* stream) {
    PACELINE_ASSIGN(const TableHeader header, stream->header());
    ReadOptions read;
    read.schema = &model_.schema;
    read.label_column = options_.label_column;
    read.label_optional = true;
    PACELINE_ASSIGN(TableColumns columns, find_columns(header, read));
    RowReader rows(std::move(columns), stream->separator(), &model_.schema, false);
    has_truth_ = rows.has_label();
    if (!options_.json)
      output_.answer(std::string(numbers() ? "line,value,us" : "line,label,probability,us") +
                     (has_truth_ ? ",truth\n" : "\n"));
    CsvRecord record;
    std::vector<float> features(rows.feature_count());
    for (;;) {
      const Result<bool> more = stream->next(&record);
      if (!more && more.error().code() != Code::kCorrupt) return more.error();
      if (more && !*more) break;
      ++row_count_;
      if (!more)
        complain(more.error().message());
      else if (const std::optional<RowFault> wrong = rows.read(record, features))
        complain(format_text("line %zu", record.line) + wrong->text);
      else
        PACELINE_TRY(answer(record, rows, features));
    }
    finish();
    if (failed_count_ == 0) return {};
    return fail(Code::kCorrupt, "%s: %zu of %zu rows could not be read",
                shown_name(options_).c_str(), failed_count_, row_count_);
  }

 private:
  Status answer(const CsvRecord& record, const RowReader& rows, std::span<float> features) {
    Answer answer;
    answer.line = record.line;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<float>& scale = model_.schema.scale;
    const std::vector<float>& offset = model_.schema.offset;
    for (size_t i = 0; i < features.size(); ++i)
      features[i] =
          features[i] * scale[scale.size() == 1 ? 0 : i] + offset[offset.size() == 1 ? 0 : i];
    PACELINE_TRY(trainer_->predict(model_.parameters, features, outputs_));
    const auto end = std::chrono::steady_clock::now();
    answer.micros = std::chrono::duration<double, std::micro>(end - begin).count();
    if (numbers())
      take_number(rows, &answer);
    else
      take_class(record, rows, &answer);
    output_.answer(options_.json ? json_line(answer) : csv_line(answer));
    return {};
  }

  bool numbers() const { return model_.schema.label_is_number(); }

  void take_class(const CsvRecord& record, const RowReader& rows, Answer* answer) {
    const auto best = std::ranges::max_element(outputs_);
    answer->label = static_cast<int32_t>(best - outputs_.begin());
    answer->probability = *best;
    if (has_truth_) answer->truth = classes_.find(rows.label(record));
    if (!answer->truth) return;
    ++judged_count_;
    right_count_ += *answer->truth == answer->label;
  }

  void take_number(const RowReader& rows, Answer* answer) {
    const DataSchema& schema = model_.schema;
    answer->value = (static_cast<double>(outputs_[0]) - static_cast<double>(schema.label_offset)) /
                    static_cast<double>(schema.label_scale);
    if (has_truth_) answer->true_value = rows.label_number();
    if (answer->true_value) score_.add(answer->value, static_cast<double>(*answer->true_value));
  }

  void complain(const std::string& what) {
    ++failed_count_;
    output_.complain(shown_name(options_) + ": " + what + "\n");
  }

  const std::string& name(int32_t label) const {
    return classes_.names()[static_cast<size_t>(label)];
  }

  std::string csv_line(const Answer& answer) const {
    if (numbers()) {
      std::string line = format_text("%zu,%.6g,%.1f", answer.line, answer.value, answer.micros);
      if (has_truth_) line += ",";
      if (answer.true_value) line += format_text("%.6g", static_cast<double>(*answer.true_value));
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
      return line + "}\n";
    }
    std::string line = format_text(R"({"line":%zu,"label":%s,"probability":%.4f,"us":%.1f)",
                                   answer.line, json_quoted(name(answer.label)).c_str(),
                                   static_cast<double>(answer.probability), answer.micros);
    if (answer.truth) line += ",\"truth\":" + json_quoted(name(*answer.truth));
    return line + "}\n";
  }

  void finish() const {
    if (score_.count() > 0)
      output_.answer(format_text(options_.json ? "{\"rmse\":%.6g,\"r2\":%.4f,\"rows\":%zu}\n"
                                               : "# rmse %.6g, r2 %.4f: %zu rows\n",
                                 score_.rmse(), score_.r2(), score_.count()));
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
  bool has_truth_ = false;
  size_t row_count_ = 0, failed_count_ = 0, judged_count_ = 0, right_count_ = 0;
  NumberScore score_;
};

}  // namespace

Status predict_rows(const PredictOptions& options, const PredictOutput& output) {
  PACELINE_ASSIGN(Model model, load_model(options));
  PACELINE_ASSIGN(std::unique_ptr<Trainer> trainer,
                  make_trainer(model.run.model, 1, options.backend, model.run.training.loss));
  DataFile data(options);
  PACELINE_TRY(data.open());
  RowStream stream([&](std::string* text) { return data.more(text); });
  const Status status =
      Predictor(options, output, std::move(model), std::move(trainer)).run(&stream);
  if (status.ok() || status.message().starts_with(shown_name(options))) return status;
  return fail_in(shown_name(options), status);
}

}  // namespace paceline
