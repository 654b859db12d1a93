#include "server/command_experiment.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/base/signals.h"
#include "runtime/quant/dispatch.h"
#include "server/command_simulate.h"
#include "server/report/experiment_report.h"
#include "server/report/timeline.h"
#include "simulate/experiment.h"
#include "simulate/experiment_run.h"

namespace paceline {

namespace {

constexpr uint64_t kExperimentBytesMax = uint64_t{1} << 20;
constexpr uint64_t kRecordBytesMax = uint64_t{64} << 20;
constexpr uint64_t kProgramBytesMax = uint64_t{1} << 30;

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail(Code::kIo, "%s: %s", path.c_str(), std::strerror(errno));
  return {};
}

Status write_text(const std::string& path, const std::string& text) {
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

// Beside the plan: the program, its kernels and the data. A new build runs everything again.
std::string surroundings(const ExperimentData& data) {
  const Result<Bytes> program = read_file("/proc/self/exe", kProgramBytesMax);
  return format_text("program %08x kernels %s data %08x\n", program ? crc32c(*program) : 0,
                     kernels().name, data.checksum);
}

uint64_t hash_of(const std::string& text) {
  uint64_t hash = text.size();
  for (size_t i = 0; i < text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
    hash = hash64(hash ^ word);
  }
  return hash;
}

// A run's file: its line of JSON, then all that decides it, as text.
class RunFile {
 public:
  RunFile(const std::string& folder, const RunPlan& plan, const std::string& around)
      : plan_(plan), identity_(around + plan.identity()) {
    path_ = format_text("%s/runs/%016llx.json", folder.c_str(),
                        static_cast<unsigned long long>(hash_of(identity_)));
  }

  std::optional<RunRecord> load() const {
    const Result<Bytes> bytes = read_file(path_, kRecordBytesMax);
    if (!bytes) return {};
    const std::string text = text_of(*bytes);
    const size_t line = text.find('\n');
    if (line == std::string::npos || text.compare(line + 1, std::string::npos, identity_) != 0)
      return {};
    Result<RunRecord> record = parse_record(std::string_view(text).substr(0, line));
    if (!record) return {};
    record->point = plan_.point;  // of today's grid
    return std::move(*record);
  }
  Status save(const RunRecord& record) const {
    return write_text(path_, record_json(record) + "\n" + identity_);
  }

 private:
  const RunPlan& plan_;
  std::string identity_;
  std::string path_;
};

class SpanKeeper {
 public:
  explicit SpanKeeper(const RunPlan& plan) : seconds_(plan.seconds) {
    for (const WorkerPlan& worker : plan.workers) names_.push_back(worker.name);
  }
  void add(const FleetSpan& span) { spans_.push_back(span); }

  std::string trace() const {
    std::string lines;
    for (const FleetSpan& span : spans_) {
      const nlohmann::ordered_json json = {{"worker", names_[span.worker]},
                                           {"what", doing_name(span.doing)},
                                           {"from", to_seconds(span.from)},
                                           {"to", to_seconds(span.to)}};
      lines += json.dump() + "\n";
    }
    return lines;
  }
  std::string timeline(const std::string& title) const {
    std::vector<LaneSpan> spans;
    double end = seconds_;
    for (const FleetSpan& span : spans_) {
      spans.push_back(
          {span.worker, use_of(span.doing), to_seconds(span.from), to_seconds(span.to)});
      end = std::max(end, to_seconds(span.to));
    }
    return timeline_svg(title, names_, spans, end);
  }

 private:
  static LaneUse use_of(Doing doing) {
    switch (doing) {
      case Doing::kCompute:
        return LaneUse::kCompute;
      case Doing::kEvaluate:
        return LaneUse::kEvaluate;
      case Doing::kSend:
        return LaneUse::kSend;
      case Doing::kFetch:
        return LaneUse::kFetch;
      case Doing::kDiscarded:
        return LaneUse::kDiscarded;
      case Doing::kWait:
      case Doing::kAway:
        break;
    }
    return LaneUse::kWait;
  }

  std::vector<std::string> names_;
  double seconds_;
  std::vector<FleetSpan> spans_;
};

class ExperimentRunner {
 public:
  ExperimentRunner(const ExperimentOptions& options, const Experiment& experiment,
                   const ExperimentData& data, const std::atomic<bool>& stop)
      : options_(options),
        experiment_(experiment),
        data_(data),
        stop_(stop),
        around_(surroundings(data)),
        records_(experiment.run_count()) {}

  Status run() {
    PACELINE_TRY(make_folder(options_.out));
    PACELINE_TRY(make_folder(options_.out + "/runs"));
    const size_t wanted =
        options_.jobs > 0 ? options_.jobs : std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < std::min(wanted, records_.size()); ++i)
      threads.emplace_back([this] { work(); });
    threads.clear();
    PACELINE_TRY(failure_);
    return write_reports();
  }

  ExperimentResult result() const {
    ExperimentResult result;
    result.runs = records_.size();
    result.cached = cached_;
    const std::vector<RunRecord> done = done_records();
    result.done = done.size();
    result.table = experiment_table(done);
    const auto broken =
        std::ranges::find_if(done, [](const RunRecord& record) { return !record.broken.empty(); });
    if (broken != done.end()) result.broken = broken->broken;
    return result;
  }

 private:
  void work() {
    while (!stop_ && !failed_) {
      const size_t index = next_++;
      if (index >= records_.size()) return;
      if (Status status = work_on(index); !status.ok()) {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        if (index >= failed_index_) continue;
        failed_index_ = index;
        failure_ = std::move(status);
      }
    }
  }

  Status work_on(size_t index) {
    PACELINE_ASSIGN(const RunPlan plan, plan_run(experiment_, index));
    const RunFile file(options_.out, plan, around_);
    const bool traced =
        index == 0 && !(options_.trace_file.empty() && options_.timeline_file.empty());
    if (!traced)
      if (std::optional<RunRecord> record = file.load()) {
        ++cached_;
        records_[index] = std::move(record);
        return {};
      }
    RunHooks hooks;
    hooks.stop = &stop_;
    SpanKeeper spans(plan);
    if (traced) hooks.tracer = [&](const FleetSpan& span) { spans.add(span); };
    PACELINE_ASSIGN(const std::unique_ptr<RunRecord> record, run_plan(plan, data_, hooks));
    if (!record) return {};
    if (record->broken.empty()) PACELINE_TRY(file.save(*record));
    if (traced) PACELINE_TRY(write_spans(spans));
    tell(*record);
    records_[index] = *record;
    return {};
  }

  Status write_spans(const SpanKeeper& spans) const {
    if (!options_.trace_file.empty()) PACELINE_TRY(write_text(options_.trace_file, spans.trace()));
    if (!options_.timeline_file.empty())
      PACELINE_TRY(write_text(options_.timeline_file, spans.timeline(options_.file)));
    return {};
  }

  void tell(const RunRecord& record) {
    std::string settings;
    for (const auto& [key, value] : record.settings) settings += key + " " + value + ", ";
    const std::lock_guard lock(mutex_);
    if (record.broken.empty())
      std::fprintf(stderr, "%sseed %llu: accuracy %.4f\n", settings.c_str(),
                   static_cast<unsigned long long>(record.seed), record.final_accuracy);
    else
      std::fprintf(stderr, "%sBROKEN: %s\n", settings.c_str(), record.broken.c_str());
  }

  std::vector<RunRecord> done_records() const {
    std::vector<RunRecord> done;
    for (const std::optional<RunRecord>& record : records_)
      if (record) done.push_back(*record);
    return done;
  }

  Status write_reports() const {
    const std::vector<RunRecord> done = done_records();
    std::string lines;
    for (const RunRecord& record : done) lines += record_json(record) + "\n";
    PACELINE_TRY(write_text(options_.out + "/runs.jsonl", lines));
    PACELINE_TRY(write_text(options_.out + "/table.csv", experiment_csv(done)));
    return write_text(options_.out + "/accuracy.svg", experiment_plot(options_.file, done));
  }

  const ExperimentOptions& options_;
  const Experiment& experiment_;
  const ExperimentData& data_;
  const std::atomic<bool>& stop_;
  const std::string around_;
  std::vector<std::optional<RunRecord>> records_;  // each written by the thread that runs it
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> cached_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // of what follows, and of the terminal
  size_t failed_index_ = SIZE_MAX;
  Status failure_;
};

Result<Experiment> load_experiment(const std::string& path) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(path, kExperimentBytesMax));
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  return parse_experiment(text_of(bytes), path, folder);
}

// Without training: what `--oracle` does, with the file's boards.
Result<ExperimentResult> run_oracles(const ExperimentOptions& options,
                                     const Experiment& experiment) {
  SimulateOptions oracle;
  oracle.seconds = experiment.seconds;
  PACELINE_ASSIGN(const RunPlan first, plan_run(experiment, 0));
  oracle.paces = {first.server.pace};
  for (const GridAxis& axis : experiment.grid) {
    if (axis.key != "pace")
      return fail(Code::kInvalidArgument,
                  "%s: without training nothing but pace makes a difference, not %s",
                  options.file.c_str(), axis.key.c_str());
    oracle.paces.clear();
    for (const GridValue& value : axis.values) oracle.paces.push_back(grid_text(value));
  }
  const SpeedPlan& speed = first.workers.front().speed;
  for (const WorkerPlan& worker : first.workers) {
    if (worker.speed.slow_share != speed.slow_share ||
        worker.speed.slow_factor != speed.slow_factor || worker.speed.step_sigma > 0)
      return fail(Code::kInvalidArgument,
                  "%s: without training there are step_ms, and slow_share and slow_factor that are "
                  "the same on every worker",
                  options.file.c_str());
    oracle.oracle +=
        format_text("%s%.6f", oracle.oracle.empty() ? "" : ",", worker.speed.step_ms * 1e-3);
  }
  oracle.slow_share = speed.slow_share;
  oracle.slow_factor = speed.slow_factor;
  ExperimentResult result;
  std::string lines;
  for (uint64_t repeat = 0; repeat < experiment.repeats; ++repeat) {
    oracle.seed = experiment.seed + repeat;
    oracle.json = true;
    PACELINE_ASSIGN(const std::string json, simulate_paces(oracle));
    lines += json;
    oracle.json = false;
    PACELINE_ASSIGN(const std::string table, simulate_paces(oracle));
    result.table +=
        format_text("seed %llu\n", static_cast<unsigned long long>(oracle.seed)) + table;
    result.runs += oracle.paces.size();
  }
  result.done = result.runs;
  PACELINE_TRY(make_folder(options.out));
  PACELINE_TRY(write_text(options.out + "/runs.jsonl", lines));
  return result;
}

}  // namespace

Result<ExperimentResult> run_experiment(const ExperimentOptions& options,
                                        const std::atomic<bool>& stop) {
  PACELINE_ASSIGN(const Experiment experiment, load_experiment(options.file));
  if (!experiment.train) return run_oracles(options, experiment);
  PACELINE_ASSIGN(const std::shared_ptr<const ExperimentData> data,
                  load_experiment_data(experiment.data));
  ExperimentRunner runner(options, experiment, *data, stop);
  PACELINE_TRY(runner.run());
  return runner.result();
}

Status simulate_experiment(const ExperimentOptions& options) {
  std::atomic<bool> stop = false;
  const StopSignals signals([&](int) { stop = true; });
  set_log_level(LogLevel::kError);
  PACELINE_ASSIGN(const ExperimentResult result, run_experiment(options, stop));
  std::fputs(result.table.c_str(), stdout);
  std::printf("%zu of %zu runs (%zu were done before); the files are in %s\n", result.done,
              result.runs, result.cached, options.out.c_str());
  if (result.done < result.runs) std::printf("the same command goes on with the rest\n");
  if (!result.broken.empty())
    return fail(Code::kRefused, "an invariant is broken: %s", result.broken.c_str());
  return {};
}

}  // namespace paceline
