#include "server/report/summary.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/utf8.h"
#include "server/report/plot.h"

namespace paceline {

namespace {

constexpr const char* kBold = "\x1b[1m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kRed = "\x1b[31m";
constexpr const char* kReset = "\x1b[0m";

enum class Tone { kPlain, kHeading, kBetter, kWorse };

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;
};

using Row = std::vector<Cell>;

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// A name from outside must not move the cursor or change the colour: control characters, also those
// of ISO 6429 that UTF-8 writes as C2 80 to C2 9F, and whatever is no UTF-8 become '?'.
std::string printable(std::string text) {
  const bool utf8 = is_utf8(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    const bool control = code < 0x20 || code == 0x7f;
    const bool wide_control =
        code == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (control || wide_control || (code >= 0x80 && !utf8)) text[i] = '?';
    if (utf8 && wide_control) text[++i] = '?';
  }
  return text;
}

// First column to the left, numbers to the right.
std::string aligned(const std::vector<Row>& rows, bool colour) {
  std::vector<size_t> widths;
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], width_of(row[i].text));
    }
  std::string table;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i].text), ' ');
      const char* const start = row[i].tone == Tone::kHeading  ? kBold
                                : row[i].tone == Tone::kBetter ? kGreen
                                : row[i].tone == Tone::kWorse  ? kRed
                                                               : "";
      const bool dressed = colour && *start != '\0' && !row[i].text.empty();
      const std::string text = dressed ? start + row[i].text + kReset : row[i].text;
      line += i == 0 ? text + padding : "   " + padding + text;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

std::string with_commas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string percent(double share) {
  return std::isfinite(share) ? format_text("%.1f %%", 100 * share) : "not known";
}

double mean_waiting(const RunSummary& run) {
  double sum = 0;
  for (const WorkerSummary& worker : run.workers) sum += worker.waiting_share;
  return run.workers.empty() ? NAN : sum / static_cast<double>(run.workers.size());
}

double worst_waiting(const RunSummary& run) {
  double worst = NAN;
  for (const WorkerSummary& worker : run.workers)
    worst = std::isnan(worst) ? worker.waiting_share : std::max(worst, worker.waiting_share);
  return worst;
}

// "31.4x less", "1.2x more": how `now` stands to `before`.
Cell factor(double now, double before) {
  if (!(now > 0) || !(before > 0)) return {};
  const double ratio = before / now;
  if (ratio > 0.995 && ratio < 1.005) return {"the same"};
  const bool less = ratio > 1;
  const double times = less ? ratio : 1 / ratio;
  return {format_text(times < 9.95 ? "%.2fx %s" : "%.0fx %s", times, less ? "less" : "more"),
          less ? Tone::kBetter : Tone::kWorse};
}

// Shares differ by points: "61.0 % to 3.0 %" is no factor of 20 that anybody feels.
Cell points(double now, double before, bool more_is_better) {
  const double difference = 100 * (now - before);
  if (!std::isfinite(difference)) return {};
  if (std::abs(difference) < 0.05) return {"the same"};
  return {format_text("%+.1f points", difference),
          (difference > 0) == more_is_better ? Tone::kBetter : Tone::kWorse};
}

class ComparedRows {
 public:
  ComparedRows(const RunSummary& run, const RunSummary* baseline) : run_(run), baseline_(baseline) {
    Row heading{{}, {column_name(run, "this run"), Tone::kHeading}};
    if (baseline != nullptr) {
      heading.push_back({column_name(*baseline, "baseline"), Tone::kHeading});
      heading.push_back({"difference", Tone::kHeading});
    }
    rows_.push_back(heading);
  }

  template <class Get>
  void share(const char* label, Get get, bool more_is_better) {
    Row row{{label}, {percent(get(run_))}};
    if (baseline_ != nullptr) {
      row.push_back({percent(get(*baseline_))});
      row.push_back(points(get(run_), get(*baseline_), more_is_better));
    }
    rows_.push_back(row);
  }

  template <class Get, class Format>
  void amount(const char* label, Get get, Format format) {
    Row row{{label}, {format(get(run_))}};
    if (baseline_ != nullptr) {
      row.push_back({format(get(*baseline_))});
      row.push_back(factor(static_cast<double>(get(run_)), static_cast<double>(get(*baseline_))));
    }
    rows_.push_back(row);
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  static std::string column_name(const RunSummary& run, const char* otherwise) {
    return run.name.empty() ? otherwise : printable(run.name);
  }

  const RunSummary& run_;
  const RunSummary* baseline_;
  std::vector<Row> rows_;
};

std::string settings_text(const RunSettings& settings) {
  const std::pair<const char*, const std::string&> parts[] = {
      {"pace", settings.pace},       {"frequency", settings.freq}, {"up", settings.codec_up},
      {"down", settings.codec_down}, {"link", settings.link},
  };
  std::string text;
  for (const auto& [label, value] : parts)
    if (!value.empty()) text += std::string(label) + " " + value + ", ";
  return printable(text + "seed " + std::to_string(settings.seed));
}

PlotSeries series_of(const RunSummary& run, const char* otherwise, bool dashed, bool over_bytes) {
  PlotSeries series{run.name.empty() ? otherwise : run.name, dashed, {}};
  for (const CurvePoint& point : run.curve)
    series.points.push_back(
        {over_bytes ? static_cast<double>(point.bytes_total) : point.seconds, point.accuracy});
  return series;
}

}  // namespace

const CurvePoint* first_reaching(const RunSummary& run, double accuracy) {
  for (size_t i = 2; i < run.curve.size(); ++i) {
    const double sum =
        run.curve[i - 2].accuracy + run.curve[i - 1].accuracy + run.curve[i].accuracy;
    if (sum / 3 >= accuracy) return &run.curve[i];
  }
  return nullptr;
}

double late_accuracy(const RunSummary& run) {
  const size_t count = std::min<size_t>(run.curve.size(), 5);
  double sum = 0;
  for (size_t i = run.curve.size() - count; i < run.curve.size(); ++i) sum += run.curve[i].accuracy;
  return count > 0 ? sum / static_cast<double>(count) : NAN;
}

std::string summary_table(const RunSummary& run, const RunSummary* baseline, bool colour) {
  using Run = const RunSummary&;
  const auto bytes = [](uint64_t count) {
    return unit_text(static_cast<double>(count), Unit::kBytes);
  };
  const auto time = [](double seconds) { return unit_text(seconds, Unit::kSeconds); };
  ComparedRows compared(run, baseline);
  compared.share(
      "accuracy", [](Run r) { return r.accuracy; }, true);
  compared.amount(
      "time", [](Run r) { return r.seconds; }, time);
  compared.amount(
      "bytes up", [](Run r) { return r.bytes_up; }, bytes);
  compared.amount(
      "bytes down", [](Run r) { return r.bytes_down; }, bytes);
  compared.amount(
      "exchanges", [](Run r) { return r.exchanges; }, with_commas);
  compared.amount(
      "rounds", [](Run r) { return r.rounds; }, with_commas);
  if (std::isfinite(run.target_accuracy)) {
    const double target = run.target_accuracy;
    const auto or_never = [](auto format) {
      return [format](double value) { return value > 0 ? format(value) : std::string("never"); };
    };
    const auto seconds_to = [target](Run r) {
      const CurvePoint* point = first_reaching(r, target);
      return point != nullptr ? point->seconds : 0;
    };
    const auto bytes_to = [target](Run r) {
      const CurvePoint* point = first_reaching(r, target);
      return point != nullptr ? static_cast<double>(point->bytes_total) : 0;
    };
    const std::string label = format_text("to %.0f %%: ", 100 * target);
    compared.amount((label + "time").c_str(), seconds_to, or_never(time));
    compared.amount((label + "bytes").c_str(), bytes_to,
                    or_never([](double count) { return unit_text(count, Unit::kBytes); }));
  }
  compared.share("waiting, mean", mean_waiting, false);
  compared.share("waiting, worst", worst_waiting, false);
  std::string text = aligned(compared.rows(), colour);

  std::vector<Row> workers{
      {{"worker", Tone::kHeading}, {"steps", Tone::kHeading}, {"waiting", Tone::kHeading}}};
  for (const WorkerSummary& worker : run.workers)
    workers.push_back({{printable(worker.name)},
                       {with_commas(worker.training_steps)},
                       {percent(worker.waiting_share)}});
  if (!run.workers.empty()) text += "\n" + aligned(workers, colour);
  text += "\n" + settings_text(run.settings) + "\n";
  if (baseline != nullptr) text += "baseline: " + settings_text(baseline->settings) + "\n";
  if (!run.model_checksum.empty()) text += "model " + printable(run.model_checksum) + "\n";
  return text;
}

std::string summary_plot(const RunSummary& run, const RunSummary* baseline) {
  PlotPanel over_time{"Accuracy against time", "time", "accuracy", Unit::kSeconds,
                      Unit::kPercent,          false,  {}};
  PlotPanel over_bytes{"Accuracy against bytes sent",
                       "bytes up and down (log scale)",
                       "accuracy",
                       Unit::kBytes,
                       Unit::kPercent,
                       true,
                       {}};
  over_time.series.push_back(series_of(run, "this run", false, false));
  over_bytes.series.push_back(series_of(run, "this run", false, true));
  if (baseline != nullptr) {
    over_time.series.push_back(series_of(*baseline, "baseline", true, false));
    over_bytes.series.push_back(series_of(*baseline, "baseline", true, true));
  }
  return plot_svg("Training run", std::vector<PlotPanel>{over_time, over_bytes});
}

bool colour_wanted(int descriptor) {
  const char* const refused = std::getenv("NO_COLOR");
  return (refused == nullptr || *refused == '\0') && isatty(descriptor) == 1;
}

}  // namespace paceline
