#include "server/init_run.h"

#include <algorithm>
#include <filesystem>

#include "runtime/base/files.h"
#include "runtime/base/json_text.h"
#include "runtime/base/limits.h"
#include "runtime/base/nearest.h"
#include "runtime/data/describe.h"
#include "runtime/data/load.h"
#include "runtime/data/number_text.h"
#include "runtime/data/reader.h"
#include "runtime/train/model.h"
#include "server/init_sparse.h"
#include "server/init_windows.h"

namespace paceline {

namespace {

// A label's values are classes if there are at most so many and each has so many rows on average.
constexpr size_t kClassesProposedMax = 32;
constexpr size_t kRowsPerClassMin = 5;
constexpr uint32_t kHiddenMin = 16, kHiddenMax = 128;
// A short run on small tables: so many passes over the sample's rows, the held-out tenth left out.
constexpr size_t kPasses = 20, kBatch = 32, kStepsPerExchange = 16;
constexpr size_t kRoundsMin = 100;
// A forecast has to be better than "nothing changes": small weights and large steps are not.
constexpr double kRate = 0.02, kForecastRate = 0.005, kKeep = 0.995;
constexpr double kMissingSkippedMax = 0.2;  // of the rows; above, the mean stands in

using Names = std::vector<std::string>;

struct LeftOut {
  std::string name, why;
};

struct Choice {
  std::vector<const ColumnProfile*> features;
  const ColumnProfile* label = nullptr;
  std::string label_reason;
  Names classes;  // none: the label is a number
  bool regress() const { return classes.empty(); }
  WindowChoice windows;
  bool forecasts() const { return windows.horizon > 0; }
  std::vector<LeftOut> left_out;
  Names other_labels;  // columns that could be meant
};

bool is_ignored(const ColumnProfile& column, const InitOptions& options) {
  return std::ranges::find(options.ignored, column.name) != options.ignored.end();
}

bool is_number(const std::string& text) { return parse_float32(text).has_value(); }

// Whole numbers by value, words by bytes.
Names classes_of(const ColumnProfile& column) {
  Names classes;
  for (const auto& [name, rows] : column.distinct) classes.push_back(name);
  if (std::ranges::all_of(classes, is_number))
    std::ranges::stable_sort(classes, {}, [](const std::string& name) {
      return static_cast<double>(parse_float32(name).value_or(0));
    });
  return classes;
}

bool can_be_label(const ColumnProfile& column, size_t row_count) {
  const size_t count = column.distinct.size();
  if (count < 2 || count > kClassesProposedMax || count * kRowsPerClassMin > row_count)
    return false;
  if (column.kind == ColumnKind::kTime || column.kind == ColumnKind::kCounter) return false;
  return column.kind == ColumnKind::kWords ||
         std::ranges::all_of(column.distinct, [](const auto& entry) {
           return parse_whole(entry.first).has_value();
         });
}

const char* why_no_feature(const ColumnProfile& column) {
  switch (column.kind) {
    case ColumnKind::kWords:
      return "words, no numbers";
    case ColumnKind::kTime:
      return "dates or times";
    case ColumnKind::kCounter:
      return "rises or falls with every row: a time or a serial number";
    case ColumnKind::kConstant:
      return "the same in every row: zero variance";
    case ColumnKind::kNumbers:
      break;
  }
  return nullptr;
}

Result<const ColumnProfile*> column_named(const TableProfile& table, const std::string& name) {
  std::vector<std::string_view> names;
  for (const ColumnProfile& column : table.columns) {
    if (column.name == name) return &column;
    names.push_back(column.name);
  }
  return fail(Code::kNotFound, "no column is named '%s'%s", name.c_str(),
              suggest_name(name, names).c_str());
}

bool can_be_number(const ColumnProfile& column) {
  return column.kind == ColumnKind::kNumbers && column.distinct.size() > kClassesProposedMax;
}

Status check_label(const ColumnProfile& column) {
  const char* name = column.name.c_str();
  if (can_be_number(column)) return {};
  if (!column.few_distinct() || column.distinct.size() > kClassesProposedMax ||
      column.kind == ColumnKind::kCounter)
    return fail(Code::kInvalidArgument,
                "the label '%s' has %s%zu different values and is no measured number; make at most "
                "%zu classes of it, or give another column with --label",
                name, column.few_distinct() ? "" : "more than ",
                column.few_distinct() ? column.distinct.size() : ColumnProfile::kDistinctMax,
                kClassesProposedMax);
  if (column.distinct.size() < 2)
    return fail(Code::kInvalidArgument,
                "the label '%s' has %zu value; a run needs rows of at least 2 classes", name,
                column.distinct.size());
  return {};
}

Status check_forecast(const ColumnProfile& column, const InitOptions& options) {
  if (!options.label.empty())
    return fail(Code::kInvalidArgument, "--forecast names the label; leave --label out");
  if (column.kind == ColumnKind::kNumbers && column.deviation > 0) return {};
  return fail(Code::kInvalidArgument,
              "'%s' can't be forecast: its values are not numbers that vary", column.name.c_str());
}

// A column that the user names, or the last one that fits.
Status choose_label(const TableProfile& table, const InitOptions& options, Choice* choice) {
  if (choice->forecasts()) {
    PACELINE_ASSIGN(choice->label, column_named(table, options.forecast));
    PACELINE_TRY(check_forecast(*choice->label, options));
    choice->label_reason = format_text("%u rows ahead, as you said", options.horizon);
    return {};
  }
  if (!options.label.empty()) {
    PACELINE_ASSIGN(choice->label, column_named(table, options.label));
    PACELINE_TRY(check_label(*choice->label));
    choice->label_reason =
        table.label.empty() ? "as you said" : "the last attribute, or as you said";
  }
  // Classes before numbers: a measured number is a feature more often than a label.
  const auto take_last = [&](auto fits, const char* reason) {
    const bool open = choice->label == nullptr;
    for (const ColumnProfile& column : table.columns)
      if (fits(column) && !is_ignored(column, options)) {
        if (open) choice->label = &column;
        choice->other_labels.push_back(column.name);
      }
    if (open) choice->label_reason = reason;
  };
  take_last([&](const ColumnProfile& c) { return can_be_label(c, table.row_count); },
            "the last column with few different values");
  if (choice->label == nullptr)
    take_last(can_be_number, "the last column with many numbers, as none has few values");
  if (choice->label == nullptr)
    return fail(Code::kInvalidArgument,
                "no column holds 2 to %zu classes, each in %zu rows or more, or more than %zu "
                "different numbers; name the label with --label",
                kClassesProposedMax, kRowsPerClassMin, kClassesProposedMax);
  std::erase(choice->other_labels, choice->label->name);
  if (!can_be_number(*choice->label)) choice->classes = classes_of(*choice->label);
  return {};
}

Result<Choice> choose(const TableProfile& table, const InitOptions& options) {
  Choice choice;
  for (const std::string& name : options.ignored) {
    PACELINE_ASSIGN(const ColumnProfile* column, column_named(table, name));
    choice.left_out.push_back({column->name, "as you said"});
  }
  choice.windows = choose_windows(table, options);
  PACELINE_TRY(choose_label(table, options, &choice));
  for (const ColumnProfile& column : table.columns) {
    if (is_ignored(column, options)) continue;
    // What is forecast is a feature, too: what it was tells most of what it will be.
    if (&column == choice.label && !choice.forecasts()) continue;
    if (const char* why = why_no_feature(column))
      choice.left_out.push_back({column.name, why});
    else
      choice.features.push_back(&column);
  }
  if (choice.features.empty())
    return fail(Code::kInvalidArgument, "no column besides the label '%s' holds changing numbers",
                choice.label->name.c_str());
  return choice;
}

// Enough for the shapes of a small table; the smallest board computes it in microseconds.
uint32_t hidden_units(size_t features, size_t classes) {
  uint32_t units = kHiddenMin;
  while (units < kHiddenMax && units < 1.5 * static_cast<double>(std::max(features, classes)))
    units *= 2;
  return units;
}

size_t output_count(const Choice& choice) { return choice.regress() ? 1 : choice.classes.size(); }

size_t rounds_of(size_t row_count, const WindowChoice& windows) {
  const size_t steps = row_count / windows.stride * 9 / 10 * kPasses / kBatch;
  return std::max(kRoundsMin, steps / kStepsPerExchange + 1);
}

const char* missing_rule(const TableProfile& table) {
  if (table.missing_row_count == 0) return "error";
  const double share =
      static_cast<double>(table.missing_row_count) / static_cast<double>(table.row_count);
  return share <= kMissingSkippedMax ? "skip" : "mean";
}

std::string quoted_list(const Names& names) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() == 1 ? "" : ", ") + json_quoted(name);
  return text + "]";
}

std::string class_text(const Choice& choice) {
  return "# Class 0 is the first. A board counts by these names, whichever of them it has seen; "
         "rows of other\n# classes are refused. More classes: add them here, to model.classes and "
         "to the last layer's units.\nclasses = " +
         quoted_list(choice.classes) + "\n";
}

std::string number_text(const ColumnProfile& label) {
  return format_text(
      "# A number: %.6g to %.6g, mean %.6g, standard deviation %.6g. The net learns number * "
      "label_scale +\n# label_offset, the same on every board; predict gives the number.\n"
      "label_scale = %.9g\nlabel_offset = %.9g\n",
      label.lowest, label.highest, label.mean, label.deviation, 1 / label.deviation,
      -label.mean / label.deviation);
}

//   commented  what each column is in the sample; wide tables have no room for it
std::string data_table(const TableProfile& table, const Choice& choice, bool commented) {
  std::string text =
      "[data]\n"
      "# The features by name, in the model's order, and what they are in the sample. A board's "
      "file may have\n# them in any order and other columns beside.\n"
      "columns = [\n";
  std::string scale, offset;
  for (const ColumnProfile* column : choice.features) {
    text += "  " + json_quoted(column->name) + ",";
    if (commented)
      text += format_text("  # %.6g to %.6g, mean %.6g, standard deviation %.6g", column->lowest,
                          column->highest, column->mean, column->deviation);
    text += '\n';
    // A column that does not vary has no scale of its own.
    const double factor = column->deviation > 0 ? 1 / column->deviation : 1;
    scale += format_text("%s%.9g", scale.empty() ? "" : ", ", factor);
    offset += format_text("%s%.9g", offset.empty() ? "" : ", ", -column->mean * factor);
  }
  Names ignored;
  std::string reasons;
  for (const LeftOut& column : choice.left_out) {
    ignored.push_back(column.name);
    reasons += "# " + json_quoted(column.name) + ": " + column.why + "\n";
  }
  text += "]\nlabel = " + json_quoted(choice.label->name) + "\n";
  text += choice.regress() ? number_text(*choice.label) : class_text(choice);
  text += window_keys(choice.windows);
  if (!ignored.empty()) text += reasons + "ignore = " + quoted_list(ignored) + "\n";
  text +=
      "# x = value * scale + offset, which is (value - mean) / standard deviation: the same on "
      "every board.\n";
  text += "scale = [" + scale + "]\noffset = [" + offset + "]\n";
  text += format_text(
      "missing = \"%s\"         # a row with a missing value: \"error\", \"skip\", or \"mean\" "
      "takes the mean\n",
      missing_rule(table));
  if (!table.missing_values.empty())
    text += "missing_values = " + quoted_list(table.missing_values) + "\n";
  bool odd = table.odd_row_count > 0;
  for (const ColumnProfile* column : choice.features) odd |= column->odd_count > 0;
  text +=
      format_text("bad_rows = \"%s\"        # a row that can't be read: \"error\" or \"skip\"\n\n",
                  odd ? "skip" : "error");
  return text;
}

std::string model_text(const Choice& choice) {
  const size_t features = choice.features.size(), outputs = output_count(choice);
  const char* kind = choice.regress() ? "outputs" : "classes";
  if (choice.windows.used())
    return format_text("[model]\ninput = [%zu, %u]          # columns, rows\n%s = %zu\n\n",
                       features, choice.windows.rows, kind, outputs) +
           window_layers(choice.windows, outputs);
  return format_text(
      "[model]\ninput = [%zu]\n%s = %zu\n\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u                # more for harder tables\n"
      "[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = %zu                 # as many as %s\n\n",
      features, kind, outputs, hidden_units(features, outputs), outputs,
      choice.regress() ? "numbers" : "classes");
}

std::string training_text(const Choice& choice) {
  std::string text = "[training]\n";
  if (choice.regress())
    text += "loss = \"mse\"             # or \"huber\": rows that are far off pull less\n";
  return text +
         format_text(
             "batch = %zu                # rows of one local step\n"
             "rate = %-5g              # learning rate; lower it if the loss does not settle\n"
             "momentum = 0.9\n"
             "keep = %-5g              # weight decay: factor at each exchange; 1 is none, 0.97 is "
             "much\n"
             "seed = 1\n\n"
             "[communication]\npace = \"compat\"           # edge_server paces lists them\n"
             "freq = \"fixed:%zu\"         # local steps between exchanges; edge_server freqs "
             "lists "
             "more\n%s\n",
             kBatch, choice.forecasts() ? kForecastRate : kRate, choice.forecasts() ? 1 : kKeep,
             kStepsPerExchange,
             choice.forecasts() ? "rate_end = 0.05           # share of the rate at the run's end\n"
                                : "");
}

std::string run_text(const TableProfile& table, const Choice& choice, const InitOptions& options,
                     bool commented) {
  std::string text = format_text(
      "# A run of Paceline, proposed from %zu rows. Serve it:  edge_server serve %s\n"
      "# Workers need nothing of this file: they get it from the server.\n\n",
      table.row_count, options.run_file.c_str());
  text += data_table(table, choice, commented) + model_text(choice) + training_text(choice);
  text += format_text(
      "[server]\nlisten = \"0.0.0.0:7433\"\n"
      "state = \"paceline-state\"  # checkpoints and the model; the run goes on from here after a "
      "restart\n"
      "min_workers = %u           # nobody trains before so many are there\n"
      "rounds = %zu              # %zu passes over as many rows as the sample has; 0: until "
      "Ctrl-C\n",
      options.workers, rounds_of(table.row_count, choice.windows), kPasses);
  return text;
}

std::string label_text(const Choice& choice) {
  const ColumnProfile& label = *choice.label;
  if (choice.regress())
    return format_text("number    %.6g to %.6g, mean %.6g, standard deviation %.6g\n", label.lowest,
                       label.highest, label.mean, label.deviation);
  Names classes;
  for (const std::string& name : choice.classes)
    classes.push_back(format_text("%s (%zu)", name.c_str(), label.distinct.at(name)));
  return format_text("classes   %zu, with their rows: %s\n", classes.size(),
                     name_list(classes).c_str());
}

std::string summary_text(const TableProfile& table, const Choice& choice,
                         const InitOptions& options, uint64_t parameters) {
  Names features;
  for (const ColumnProfile* column : choice.features) features.push_back(column->name);
  const size_t outputs = output_count(choice);
  const uint32_t hidden = hidden_units(features.size(), outputs);
  const size_t inputs = features.size() * choice.windows.rows;
  std::string text =
      format_text("rows      %zu in %s\n", table.row_count, options.sample_file.c_str());
  text += format_text("features  %zu: %s\n", features.size(), name_list(features).c_str());
  text += format_text("label     %s, %s", choice.label->name.c_str(), choice.label_reason.c_str());
  if (!choice.other_labels.empty())
    text += "; --label takes another: " + name_list(choice.other_labels);
  text += "\n" + label_text(choice) + window_summary(choice.windows);
  for (const LeftOut& column : choice.left_out)
    text += "left out  " + column.name + ": " + column.why + "\n";
  if (table.missing_row_count > 0)
    text += format_text("missing   in %zu rows, written as %s: %s\n", table.missing_row_count,
                        quoted_list(table.missing_values).c_str(),
                        std::string_view(missing_rule(table)) == "skip"
                            ? "such rows are skipped"
                            : "the column's mean stands in");
  if (table.odd_row_count > 0)
    text += format_text("odd rows  %zu with too few or too many cells are skipped\n",
                        table.odd_row_count);
  for (const std::string& note : table.notes) text += "note      " + note + "\n";
  text +=
      "scale     each column by its mean and standard deviation here, the same on every board\n";
  text += format_text("length    %zu rounds, %zu passes over so many rows on each board\n",
                      rounds_of(table.row_count, choice.windows), kPasses);
  text += format_text("net       %zu inputs, %s, %zu %s: %llu parameters\n", inputs,
                      choice.windows.used() ? "convolutions along the rows"
                                            : format_text("%u hidden units", hidden).c_str(),
                      outputs, choice.regress() ? "outputs" : "classes",
                      static_cast<unsigned long long>(parameters));
  return text;
}

std::string next_steps(const InitOptions& options) {
  return options.run_file +
         " is written; read it, it is commented. Then\n"
         "  edge_server serve " +
         options.run_file +
         "\n  edge_server enrol BOARD                       here, for every board; edge_worker "
         "join there takes the code\n"
         "  edge_worker --data FILE                       on every board\n"
         "  edge_worker predict --model paceline-state/model.safetensors --data FILE\n";
}

}  // namespace

Result<RunProposal> propose_run(const TableProfile& table, const InitOptions& options) {
  PACELINE_ASSIGN(const Choice choice, choose(table, options));
  std::string toml = run_text(table, choice, options, true);
  if (toml.size() > kRunTextBytesMax) toml = run_text(table, choice, options, false);
  if (toml.size() > kRunTextBytesMax)
    return fail(
        Code::kResourceExhausted,
        "%zu features make a description of %zu bytes, at most %zu travel to a worker; leave "
        "columns out with --ignore",
        choice.features.size(), toml.size(), kRunTextBytesMax);
  PACELINE_ASSIGN(const ModelSpec model, parse_model(toml));
  uint64_t parameters = 0;
  for (const TensorSpec& tensor : model.layout.tensors()) parameters += tensor.count;
  return RunProposal{std::move(toml), summary_text(table, choice, options, parameters)};
}

namespace {

Result<RunProposal> in_file(const std::string& path, Result<RunProposal> proposal) {
  if (!proposal) return fail_in_file(path, proposal.error());
  return proposal;
}

Result<RunProposal> propose_for_file(InitOptions options) {
  ReadOptions read;
  PACELINE_ASSIGN(const bool sparse, has_sparse_rows(options.sample_file));
  if (sparse) {
    PACELINE_ASSIGN(const Dataset rows, read_dataset(options.sample_file, read));
    return in_file(options.sample_file, propose_sparse_run(rows, options));
  }
  read.label_column = options.label.empty() ? options.forecast : options.label;
  read.ignored_columns = options.ignored;
  PACELINE_ASSIGN(const TableProfile table, profile_table(options.sample_file, read));
  if (options.label.empty() && options.forecast.empty()) options.label = table.label;
  return in_file(options.sample_file, propose_run(table, options));
}

}  // namespace

Result<std::string> init_run(const InitOptions& options) {
  // Before the sample is read: a refusal costs no time.
  std::error_code ignored;
  if (!options.force && std::filesystem::exists(options.run_file, ignored))
    return fail(Code::kInvalidArgument,
                "%s is there already; --force replaces it, --out writes "
                "another",
                options.run_file.c_str());
  PACELINE_ASSIGN(const RunProposal proposal, propose_for_file(options));
  PACELINE_TRY(write_file_atomically(options.run_file, std::as_bytes(std::span(proposal.toml))));
  return proposal.summary + next_steps(options);
}

}  // namespace paceline
