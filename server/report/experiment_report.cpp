#include "server/report/experiment_report.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "server/report/plot.h"

namespace paceline {

namespace {

constexpr size_t kByteSamples = 60;  // of a curve over bytes

struct Figure {
  size_t count = 0;  // of the runs that have it
  double mean = NAN;
  double deviation = NAN;  // of one run; NaN with fewer than two
};

// One point of the grid.
struct Point {
  std::string label;
  std::vector<const RunRecord*> runs;
};

std::vector<Point> points_of(std::span<const RunRecord> runs) {
  std::vector<Point> points;
  const RunRecord* before = nullptr;
  for (const RunRecord& run : runs) {
    if (!run.broken.empty()) continue;
    if (before == nullptr || before->point != run.point) {
      std::string label;
      for (const auto& [key, value] : run.settings)
        label += (label.empty() ? "" : ", ") + key + " " + value;
      points.push_back({label.empty() ? "the run" : label, {}});
    }
    points.back().runs.push_back(&run);
    before = &run;
  }
  return points;
}

Figure figure_of(const Point& point, const std::function<double(const RunRecord&)>& get) {
  Figure figure;
  double sum = 0, squares = 0;
  for (const RunRecord* run : point.runs) {
    const double value = get(*run);
    if (!std::isfinite(value)) continue;
    ++figure.count;
    sum += value;
  }
  if (figure.count == 0) return figure;
  figure.mean = sum / static_cast<double>(figure.count);
  for (const RunRecord* run : point.runs)
    if (const double value = get(*run); std::isfinite(value))
      squares += (value - figure.mean) * (value - figure.mean);
  if (figure.count > 1)
    figure.deviation = std::sqrt(squares / static_cast<double>(figure.count - 1));
  return figure;
}

struct Column {
  std::string heading;   // on the terminal; empty: only in the CSV file
  std::string csv_name;  // with the unit
  Unit unit;
  std::function<double(const RunRecord&)> get;
};

std::vector<Column> columns_of(std::span<const RunRecord> runs) {
  using Run = const RunRecord&;
  std::vector<Column> columns = {
      {"final", "final_accuracy", Unit::kPercent, [](Run r) { return r.final_accuracy; }},
      {"best", "best_accuracy", Unit::kPercent, [](Run r) { return r.best_accuracy; }}};
  for (size_t i = 0; !runs.empty() && i < runs.front().targets.size(); ++i) {
    const double accuracy = runs.front().targets[i].accuracy;
    const std::string to = format_text("to %.10g %%", 100 * accuracy);
    const std::string csv = format_text("to_%.10g_", accuracy);
    const auto target = [i](Run r) { return i < r.targets.size() ? r.targets[i] : TargetRecord(); };
    const auto reached = [target](Run r, uint64_t TargetRecord::*amount) {
      return std::isfinite(target(r).seconds) ? static_cast<double>(target(r).*amount) : NAN;
    };
    columns.push_back(
        {to, csv + "seconds", Unit::kSeconds, [target](Run r) { return target(r).seconds; }});
    columns.push_back({"sent", csv + "bytes", Unit::kBytes,
                       [reached](Run r) { return reached(r, &TargetRecord::bytes); }});
    columns.push_back({"", csv + "exchanges", Unit::kNone,
                       [reached](Run r) { return reached(r, &TargetRecord::exchanges); }});
  }
  columns.push_back(
      {"waiting", "waiting_share", Unit::kPercent, [](Run r) { return r.waiting_share; }});
  columns.push_back({"sent in all", "bytes", Unit::kBytes,
                     [](Run r) { return static_cast<double>(r.bytes_up + r.bytes_down); }});
  const auto whole = [&](const char* heading, const char* name, uint64_t RunRecord::*amount) {
    columns.push_back(
        {heading, name, Unit::kNone, [amount](Run r) { return static_cast<double>(r.*amount); }});
  };
  whole("exchanges", "exchanges", &RunRecord::exchanges);
  whole("", "rounds", &RunRecord::rounds);
  whole("", "steps", &RunRecord::steps);
  whole("refused", "refused", &RunRecord::refused);
  whole("", "discarded_steps", &RunRecord::discarded);
  return columns;
}

std::string figure_text(const Figure& figure, Unit unit, size_t runs) {
  if (figure.count == 0) return "never";
  const auto text = [unit](double value) {
    return unit == Unit::kNone ? format_text("%.0f", value) : unit_text(value, unit);
  };
  std::string line = text(figure.mean);
  if (figure.count > 1) line += " +- " + text(figure.deviation);
  if (figure.count < runs) line += format_text(" (%zu of %zu)", figure.count, runs);
  return line;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// Accuracy after so many bytes, between the points on a straight line; none outside of the curve.
std::optional<double> accuracy_at(const RunRecord& run, double bytes) {
  for (size_t i = 1; i < run.curve.size(); ++i) {
    const double before = static_cast<double>(run.curve[i - 1].bytes);
    const double after = static_cast<double>(run.curve[i].bytes);
    if (bytes < before || bytes > after || after <= before) continue;
    const double part = (bytes - before) / (after - before);
    return run.curve[i - 1].accuracy + part * (run.curve[i].accuracy - run.curve[i - 1].accuracy);
  }
  return {};
}

void add_sample(double x, std::span<const double> values, PlotSeries* series) {
  double sum = 0;
  for (const double value : values) sum += value;
  series->points.push_back({x, sum / static_cast<double>(values.size())});
  if (values.size() > 1)
    series->band.push_back({x, std::ranges::min(values), std::ranges::max(values)});
}

// Repeats are looked at at the same moments.
PlotSeries over_time(const Point& point) {
  PlotSeries series{.name = point.label};
  size_t count = SIZE_MAX;
  for (const RunRecord* run : point.runs) count = std::min(count, run->curve.size());
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> values;
    for (const RunRecord* run : point.runs) values.push_back(run->curve[i].accuracy);
    add_sample(point.runs.front()->curve[i].seconds, values, &series);
  }
  return series;
}

PlotSeries over_bytes(const Point& point) {
  PlotSeries series{.name = point.label};
  double lowest = INFINITY, highest = 0;
  for (const RunRecord* run : point.runs)
    for (const RecordPoint& sample : run->curve) {
      if (sample.bytes == 0) continue;
      lowest = std::min(lowest, static_cast<double>(sample.bytes));
      highest = std::max(highest, static_cast<double>(sample.bytes));
    }
  if (!(lowest < highest)) return series;
  const double ratio = std::pow(highest / lowest, 1.0 / kByteSamples);
  double bytes = lowest;
  for (size_t i = 0; i <= kByteSamples; ++i, bytes *= ratio) {
    std::vector<double> values;
    for (const RunRecord* run : point.runs)
      if (const std::optional<double> value = accuracy_at(*run, bytes)) values.push_back(*value);
    if (values.size() == point.runs.size()) add_sample(bytes, values, &series);
  }
  return series;
}

}  // namespace

std::string experiment_table(std::span<const RunRecord> runs) {
  const std::vector<Column> columns = columns_of(runs);
  std::vector<std::vector<std::string>> rows(1, {""});
  for (const Column& column : columns)
    if (!column.heading.empty()) rows.front().push_back(column.heading);
  for (const Point& point : points_of(runs)) {
    rows.push_back({point.label});
    for (const Column& column : columns)
      if (!column.heading.empty())
        rows.back().push_back(
            figure_text(figure_of(point, column.get), column.unit, point.runs.size()));
  }
  std::string table;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      const std::string padding(width - row[i].size(), ' ');
      table += i == 0 ? row[i] + padding : "   " + padding + row[i];
    }
    table += "\n";
  }
  return table;
}

std::string experiment_csv(std::span<const RunRecord> runs) {
  const std::vector<Column> columns = columns_of(runs);
  std::string csv;
  if (!runs.empty())
    for (const auto& [key, value] : runs.front().settings) csv += csv_cell(key) + ",";
  csv += "runs";
  for (const Column& column : columns)
    csv += "," + column.csv_name + "_mean," + column.csv_name + "_deviation";
  csv += "\n";
  const auto cell = [](double value) {
    return std::isfinite(value) ? format_text("%.10g", value) : std::string();
  };
  for (const Point& point : points_of(runs)) {
    for (const auto& [key, value] : point.runs.front()->settings) csv += csv_cell(value) + ",";
    csv += format_text("%zu", point.runs.size());
    for (const Column& column : columns) {
      const Figure figure = figure_of(point, column.get);
      csv += "," + cell(figure.mean) + "," + cell(figure.deviation);
    }
    csv += "\n";
  }
  return csv;
}

std::string experiment_plot(const std::string& title, std::span<const RunRecord> runs) {
  PlotPanel time{.title = "Accuracy against time",
                 .x_label = "virtual time",
                 .y_label = "accuracy",
                 .x_unit = Unit::kSeconds,
                 .y_unit = Unit::kPercent,
                 .series = {}};
  PlotPanel bytes{.title = "Accuracy against bytes sent",
                  .x_label = "bytes up and down (log scale)",
                  .y_label = "accuracy",
                  .x_unit = Unit::kBytes,
                  .y_unit = Unit::kPercent,
                  .x_logarithmic = true,
                  .series = {}};
  for (const Point& point : points_of(runs)) {
    time.series.push_back(over_time(point));
    bytes.series.push_back(over_bytes(point));
  }
  return plot_svg(title, std::vector<PlotPanel>{time, bytes});
}

}  // namespace paceline
