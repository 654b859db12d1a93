#include "server/demo.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <tuple>

#include "runtime/base/clock.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "runtime/base/safetensors.h"
#include "runtime/base/signals.h"
#include "runtime/base/version.h"
#include "runtime/data/reader.h"
#include "server/child.h"
#include "server/daemon.h"
#include "server/model_watcher.h"
#include "server/report/summary.h"

namespace paceline {

namespace {

constexpr size_t kControlRows = 5000;  // the last of the training images; workers never see them
constexpr TimeUs kEvaluateEveryUs = from_ms(250);
constexpr double kTargetAccuracy = 0.84;  // whose time and bytes the table shows
// A round waits for the slowest exchange; the first one is the exact model on the thinnest link.
constexpr uint32_t kDeadlineMs = 10'000;
constexpr double kModelBits = 120e3 * 32;

// One way of running: what is compared.
struct Arm {
  std::string name;
  std::string pace, freq, codec_up, codec_down;
  double rate = 0;
  double seconds = 0;
};

std::string speeds_text(const std::vector<double>& speeds) {
  std::string text;
  for (const double speed : speeds) text += format_text("%s%g", text.empty() ? "" : ":", speed);
  return text;
}

uint32_t deadline_ms(const std::string& link) {
  if (link.empty()) return kDeadlineMs;
  const Result<LinkLimit> limit = parse_link(link);
  if (!limit) return kDeadlineMs;
  const double thinnest = std::min(limit->up_bits_per_s, limit->down_bits_per_s);
  return static_cast<uint32_t>(
      std::clamp(2.5 * kModelBits / thinnest * 1e3, static_cast<double>(kDeadlineMs), 3'600'000.0));
}

std::string run_text(const DemoOptions& options, const Arm& arm) {
  return format_text(R"([model]
input = [28, 28]
classes = 10
[[layer]]
type = "flatten"
[[layer]]
type = "dense"
units = 128
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 10
[training]
batch = 32
rate = %.17g
momentum = 0.9
seed = %llu
[data]
scale = 0.00392156862745098
[communication]
pace = "%s"
freq = "%s"
codec_up = "%s"
codec_down = "%s"
[server]
listen = "127.0.0.1:0"
exchange_deadline_ms = %u
seconds = %.17g
rounds = %llu
)",
                     arm.rate, static_cast<unsigned long long>(options.seed), arm.pace.c_str(),
                     arm.freq.c_str(), arm.codec_up.c_str(), arm.codec_down.c_str(),
                     deadline_ms(options.link), arm.seconds,
                     static_cast<unsigned long long>(options.rounds));
}

std::string worker_program(const DemoOptions& options) {
  if (!options.worker_program.empty()) return options.worker_program;
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return "edge_worker";
  const std::string path(self);
  const std::string folder = path.substr(0, path.rfind('/'));
  for (const char* place : {"/edge_worker", "/../runtime/worker/edge_worker"})
    if (access((folder + place).c_str(), X_OK) == 0) return folder + place;
  return folder + "/edge_worker";
}

struct DemoData {
  Dataset training;
  Dataset test;
  std::vector<uint32_t> control;
};

Result<DemoData> load_data(const DemoOptions& options) {
  const auto read = [&](const char* images, const char* labels) {
    ReadOptions read_options;
    read_options.label_file = options.data_folder + "/" + labels;
    return read_dataset(options.data_folder + "/" + images, read_options);
  };
  DemoData data;
  PACELINE_ASSIGN(data.training, read("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"));
  PACELINE_ASSIGN(data.test, read("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"));
  if (data.training.row_count() <= 2 * kControlRows)
    return fail(Code::kInvalidArgument, "%s: %zu training images are too few for a demo",
                options.data_folder.c_str(), data.training.row_count());
  for (Dataset* set : {&data.training, &data.test}) set->set_scaling(1.0f / 255, 0);
  data.control.resize(kControlRows);
  std::iota(data.control.begin(), data.control.end(),
            static_cast<uint32_t>(data.training.row_count() - kControlRows));
  return data;
}

std::string megabytes(uint64_t bytes) {
  return format_text("%.2f MB", static_cast<double>(bytes) / 1e6);
}

std::string last_line(const std::string& path) {
  const Result<Bytes> bytes = read_file(path, uint64_t{1} << 20);
  if (!bytes) return path;
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// One arm: its server, its workers, its curve.
class ArmRun {
 public:
  ArmRun(const DemoOptions& options, Arm arm, const DemoData& data)
      : options_(options),
        arm_(std::move(arm)),
        data_(data),
        terminal_(isatty(STDERR_FILENO) == 1) {}

  Result<RunSummary> run(std::atomic<ServerDaemon*>& stoppable);
  std::span<const float> model() const { return server_->core().published(); }
  const ParameterLayout& layout() const { return server_->core().options().run.model.layout; }

 private:
  std::string log_file(uint32_t index) const {
    return format_text("%s/%s-board%u.log", options_.out.c_str(), arm_.name.c_str(), index + 1);
  }
  Status start_worker(uint32_t index);
  void tick(ServerDaemon& server);
  void watch_children();
  void show(bool last);
  void note_codecs();
  void end_children();
  RunSummary summarize(const Evaluated& test) const;

  const DemoOptions& options_;
  Arm arm_;
  const DemoData& data_;
  bool terminal_;
  std::unique_ptr<ServerDaemon> server_;
  std::unique_ptr<ModelWatcher> watcher_;
  std::vector<Child> children_;
  Status worker_failure_;
  TimeUs next_evaluation_ = 0;
  TimeUs next_line_ = 0;
  uint64_t offered_publication_ = 0;
  std::vector<CodecChange> codecs_;
};

Status ArmRun::start_worker(uint32_t index) {
  const double step_ms = options_.step_ms * options_.speeds[index % options_.speeds.size()];
  const std::string images = options_.data_folder + "/train-images-idx3-ubyte.gz";
  const std::string labels = options_.data_folder + "/train-labels-idx1-ubyte.gz";
  std::vector<std::string> arguments = {
      server_->address(),
      "--data",
      images,
      "--labels",
      labels,
      "--name",
      format_text("board%u", index + 1),
      "--shard",
      format_text("%u/%u:dirichlet=0.5,seed=%llu,rows=%zu", index, options_.workers,
                  static_cast<unsigned long long>(options_.seed),
                  data_.training.row_count() - kControlRows),
      "--step-ms",
      format_text("%g", step_ms),
      "--stop-with-parent"};
  if (!options_.link.empty()) arguments.insert(arguments.end(), {"--link", options_.link});
  PACELINE_ASSIGN(Child child, Child::start(worker_program(options_), arguments, log_file(index)));
  if (index < children_.size())
    children_[index] = std::move(child);
  else
    children_.push_back(std::move(child));
  return {};
}

void ArmRun::watch_children() {
  for (uint32_t i = 0; i < children_.size(); ++i) {
    if (server_->core().finished() || !children_[i].ended()) continue;
    if (children_[i].failed()) {
      worker_failure_ = fail(Code::kInvalidArgument, "board%u ended (%s): %s", i + 1,
                             children_[i].exit_text().c_str(), last_line(log_file(i)).c_str());
      return server_->stop(ServerDaemon::Stop::kSuspend);
    }
    log_warning("board%u ended (%s); starting it again, its log is in %s", i + 1,
                children_[i].exit_text().c_str(), options_.out.c_str());
    if (Status status = start_worker(i); !status.ok()) log_error("%s", status.message().c_str());
  }
}

void ArmRun::show(bool last) {
  const ServerCore& core = server_->core();
  const ServerProgress& progress = server_->progress();
  const std::vector<CurvePoint> curve = watcher_->curve();
  std::string accuracy = "-", loss = "-";
  if (!curve.empty()) {
    accuracy = format_text("%.3f", curve.back().accuracy);
    loss = format_text("%.3f", curve.back().loss);
  }
  const std::string line = format_text(
      "%5.1f s  round %llu  accuracy %s  loss %s  up %s  down %s  every %u steps (%s)",
      progress.seconds, static_cast<unsigned long long>(core.rounds_done()), accuracy.c_str(),
      loss.c_str(), megabytes(progress.bytes_up).c_str(), megabytes(progress.bytes_down).c_str(),
      core.directive().tau, core.directive().reason.c_str());
  if (terminal_)
    std::fprintf(stderr, "\r\033[K%.160s%s", line.c_str(), last ? "\n" : "");
  else
    std::fprintf(stderr, "%s\n", line.c_str());
}

void ArmRun::note_codecs() {
  const Directive& directive = server_->core().directive();
  const ContentPolicy& content = server_->core().content();
  CodecChange now{server_->progress().seconds,
                  codec_info(static_cast<CodecId>(directive.codec_up)).name,
                  codec_info(static_cast<CodecId>(directive.codec_down)).name, content.reason_up(),
                  content.reason_down()};
  const auto choice = [](const CodecChange& change) {
    return std::tie(change.up, change.down, change.reason_up, change.reason_down);
  };
  if (!codecs_.empty() && choice(codecs_.back()) == choice(now)) return;
  const bool one_reason = now.reason_up == now.reason_down;
  std::fprintf(stderr, "%s%5.1f s  codecs %s up, %s down: %s%s%s\n", terminal_ ? "\r\033[K" : "",
               now.seconds, now.up.c_str(), now.down.c_str(), now.reason_up.c_str(),
               one_reason ? "" : "; ", one_reason ? "" : now.reason_down.c_str());
  codecs_.push_back(std::move(now));
}

void ArmRun::tick(ServerDaemon& server) {
  const TimeUs now = monotonic_now_us();
  watch_children();
  note_codecs();
  if (now >= next_evaluation_ && !watcher_->busy() &&
      server.core().publication() != offered_publication_) {
    next_evaluation_ = now + kEvaluateEveryUs;
    offered_publication_ = server.core().publication();
    CurvePoint point;
    point.seconds = server.progress().seconds;
    point.bytes_total = server.progress().bytes_up + server.progress().bytes_down;
    watcher_->offer(server.core().published(), point);
  }
  if (now >= next_line_) {
    next_line_ = now + (terminal_ ? from_ms(200) : from_ms(5000));
    show(false);
  }
}

void ArmRun::end_children() {
  const TimeUs patience = monotonic_now_us() + from_ms(3000);
  bool asked = false;
  while (true) {
    const bool all = std::ranges::all_of(children_, [](Child& child) { return child.ended(); });
    if (all || monotonic_now_us() > patience + from_ms(3000)) break;
    if (!asked && monotonic_now_us() > patience) {
      for (const Child& child : children_) child.signal(SIGTERM);
      asked = true;
    }
    usleep(20'000);
  }
  children_.clear();
}

RunSummary ArmRun::summarize(const Evaluated& test) const {
  const ServerCore& core = server_->core();
  const ServerProgress& progress = server_->progress();
  RunSummary summary;
  summary.name = arm_.name;
  summary.accuracy = test.accuracy;
  summary.seconds = progress.seconds;
  summary.bytes_up = progress.bytes_up;
  summary.bytes_down = progress.bytes_down;
  summary.rounds = core.rounds_done();
  summary.model_checksum = format_text("%08x", core.checksum());
  for (const Member& member : core.members()) {
    summary.exchanges += member.exchanges;
    const double waited = static_cast<double>(member.waited_us) * 1e-6;
    summary.workers.push_back(
        {member.name, progress.seconds > 0 ? waited / progress.seconds : 0, member.steps});
  }
  summary.settings = {arm_.pace,
                      arm_.freq,
                      arm_.codec_up,
                      arm_.codec_down,
                      options_.link.empty() ? "loopback" : options_.link,
                      options_.seed};
  summary.codecs = codecs_;
  summary.curve = watcher_->curve();
  summary.target_accuracy = kTargetAccuracy;
  return summary;
}

Result<RunSummary> ArmRun::run(std::atomic<ServerDaemon*>& stoppable) {
  PACELINE_ASSIGN(ServeConfig config, parse_serve_config(run_text(options_, arm_), "demo"));
  for (uint32_t i = 0; i < options_.workers; ++i)
    config.core.fleet.push_back(format_text("board%u", i + 1));
  const ModelSpec model = config.core.run.model;
  PACELINE_ASSIGN(server_, ServerDaemon::make(std::move(config)));
  stoppable = server_.get();
  PACELINE_ASSIGN(std::unique_ptr<Trainer> control, make_trainer(model, 250, "auto"));
  watcher_ = std::make_unique<ModelWatcher>(std::move(control), data_.training, data_.control);
  std::fprintf(stderr,
               "%s: pace %s, frequency %s, %s up, %s down, %u workers, step %g ms x %s, link %s\n",
               arm_.name.c_str(), arm_.pace.c_str(), arm_.freq.c_str(), arm_.codec_up.c_str(),
               arm_.codec_down.c_str(), options_.workers, options_.step_ms,
               speeds_text(options_.speeds).c_str(),
               options_.link.empty() ? "loopback" : options_.link.c_str());
  for (uint32_t i = 0; i < options_.workers; ++i) PACELINE_TRY(start_worker(i));
  const Status status = server_->run([this](ServerDaemon& server) { tick(server); });
  stoppable = nullptr;
  show(true);
  end_children();
  PACELINE_TRY(worker_failure_);
  PACELINE_TRY(status);
  PACELINE_ASSIGN(std::unique_ptr<Trainer> trainer, make_trainer(model, 250, "auto"));
  std::vector<uint32_t> rows(data_.test.row_count());
  std::iota(rows.begin(), rows.end(), 0u);
  PACELINE_ASSIGN(const Evaluated test,
                  evaluate_model(*trainer, data_.test, rows, server_->core().published()));
  while (watcher_->busy()) usleep(10'000);
  return summarize(test);
}

Status write_reports(const DemoOptions& options, const RunSummary& summary,
                     const RunSummary* baseline, const ArmRun& run) {
  const std::map<std::string, std::string> metadata = {
      {"format", "paceline"}, {"version", kVersionText}, {"checksum", summary.model_checksum}};
  PACELINE_TRY(
      write_safetensors(options.out + "/model.safetensors", run.layout(), run.model(), metadata));
  PACELINE_TRY(write_summary(options.out + "/summary.json", summary, baseline));
  const std::string plot = summary_plot(summary, baseline);
  PACELINE_TRY(
      write_file_atomically(options.out + "/accuracy.svg", std::as_bytes(std::span(plot))));
  return {};
}

}  // namespace

Status run_demo(const DemoOptions& options) {
  if (!options.link.empty()) {
    if (Result<LinkLimit> link = parse_link(options.link); !link)
      return fail(std::move(link).error());
  }
  if (mkdir(options.out.c_str(), 0755) != 0 && errno != EEXIST)
    return fail(Code::kIo, "%s: %s", options.out.c_str(), std::strerror(errno));
  std::atomic<ServerDaemon*> running = nullptr;
  std::atomic<bool> interrupted = false;
  const StopSignals signals([&](int count) {
    interrupted = true;
    ServerDaemon* server = running.load();
    if (server == nullptr || count > 2) _exit(130);  // children follow: they stop with their parent
    server->stop(count == 1 ? ServerDaemon::Stop::kFinish : ServerDaemon::Stop::kSuspend);
  });
  PACELINE_ASSIGN(const DemoData data, load_data(options));
  set_log_level(LogLevel::kWarning);

  ArmRun run(options,
             {"paceline", options.pace, options.freq, options.codec_up, options.codec_down,
              options.rate, options.seconds},
             data);
  PACELINE_ASSIGN(const RunSummary summary, run.run(running));
  std::optional<RunSummary> baseline;
  if (options.compare && !interrupted) {
    // The classic way, with its own best rate and momentum.
    ArmRun classic(options, {"baseline", "bsp", "fixed:1", "raw32", "raw32", 0.05, options.seconds},
                   data);
    PACELINE_ASSIGN(baseline, classic.run(running));
  }
  const RunSummary* other = baseline ? &*baseline : nullptr;
  PACELINE_TRY(write_reports(options, summary, other, run));
  if (options.json)
    std::printf("%s\n", summary_json(summary, other).c_str());
  else
    std::printf("\n%s\nsummary.json, accuracy.svg and model.safetensors are in %s\n",
                summary_table(summary, other, colour_wanted(STDOUT_FILENO)).c_str(),
                options.out.c_str());
  return {};
}

}  // namespace paceline
