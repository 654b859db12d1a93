#include "server/serve.h"

#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "runtime/base/safetensors.h"
#include "runtime/base/signals.h"
#include "runtime/base/version.h"
#include "runtime/net/address.h"
#include "server/control_set.h"
#include "server/daemon.h"
#include "server/fleet_folder.h"
#include "server/model_watcher.h"
#include "server/run_folder.h"

namespace paceline {

namespace {

constexpr TimeUs kStatusEveryUs = from_ms(10'000);
constexpr TimeUs kControlEveryUs = from_ms(2000);
constexpr uint64_t kRunFileBytesMax = uint64_t{1} << 20;
constexpr uint64_t kModelFileBytesMax = kModelElementsMax * sizeof(float) + (uint64_t{16} << 20);

// TLS for whatever can be reached from outside this machine.
Status choose_security(const ServeOptions& options, ServeConfig* config) {
  std::string folder = !options.fleet_folder.empty() ? options.fleet_folder : config->fleet_folder;
  config->fleet_folder.clear();
  if (!options.plain) config->listen = secure_unless_local(config->listen);
  if (!is_secure_address(config->listen)) {
    if (!is_local_address(config->listen))
      log_warning("no encryption and no identities: whoever reaches %s can join and read along",
                  config->listen.c_str());
    return {};
  }
  if (folder.empty()) folder = kFleetFolder;
  const Result<FleetFolder> fleet = FleetFolder::open(folder);
  if (!fleet)
    return fail(fleet.error().code(), "%s. Or serve without encryption and identities: --plain",
                fleet.error().message().c_str());
  config->fleet_folder = std::move(folder);
  const std::string& address = config->listen;
  const unsigned port = port_of(address);
  config->enrol_listen = address.substr(0, address.rfind(':') + 1) +
                         std::to_string(port == 0 || port == 65535 ? 0 : port + 1);
  return {};
}

// The parameters of an earlier run, or of an import.
Result<std::vector<float>> read_start(const std::string& path, const ParameterLayout& layout) {
  PACELINE_ASSIGN(Bytes bytes, read_file(path, kModelFileBytesMax));
  Result<Safetensors> file = Safetensors::parse(std::move(bytes));
  Result<std::vector<float>> start =
      file ? file->parameters(layout) : Result<std::vector<float>>(fail(file.error()));
  if (!start)
    return fail(start.error().code(), "%s: %s", path.c_str(), start.error().message().c_str());
  return start;
}

bool has_state(const std::string& folder) {
  std::error_code ignored;
  return !folder.empty() && (std::filesystem::exists(folder + "/" + kStateName + ".a", ignored) ||
                             std::filesystem::exists(folder + "/" + kStateName + ".b", ignored));
}

Result<ServeConfig> load_config(const ServeOptions& options) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(options.run_file, kRunFileBytesMax));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PACELINE_ASSIGN(ServeConfig config, parse_serve_config(text, options.run_file));
  if (!options.listen.empty()) {
    PACELINE_ASSIGN(config.listen, server_address(options.listen));
  }
  PACELINE_TRY(choose_security(options, &config));
  if (!options.state_folder.empty()) config.state_folder = options.state_folder;
  if (!options.start_file.empty()) config.start_file = options.start_file;
  // Once the run has begun its start may be gone.
  if (!config.start_file.empty() && !has_state(config.state_folder)) {
    PACELINE_ASSIGN(config.core.start, read_start(config.start_file, config.core.run.model.layout));
  }
  if (!options.journal.empty()) {
    PACELINE_ASSIGN(config.journal, journal_by_name(options.journal));
  }
  if (options.seconds > 0) config.seconds = options.seconds;
  if (options.rounds > 0) config.rounds = options.rounds;
  return config;
}

// The server's own control set, if one was given.
class Control {
 public:
  Status open(const ServeOptions& options, const RunSpec& run, const DataSchema& schema) {
    if (options.control_file.empty()) return {};
    PACELINE_ASSIGN(
        set_, open_control_set(options.control_file, options.control_label_file, run, schema));
    watcher_ =
        std::make_unique<ModelWatcher>(std::move(set_.trainer), set_.dataset, std::move(set_.rows));
    return {};
  }

  void offer(const ServerCore& core, TimeUs now) {
    if (!watcher_ || watcher_->busy() || now < next_ || core.publication() == offered_) return;
    next_ = now + kControlEveryUs;
    offered_ = core.publication();
    watcher_->offer(core.published(), {});
  }

  std::string text() const {
    const std::vector<CurvePoint> curve = watcher_ ? watcher_->curve() : std::vector<CurvePoint>();
    return curve.empty() ? "" : format_text(", control set %.3f", curve.back().accuracy);
  }

 private:
  ControlSet set_;
  std::unique_ptr<ModelWatcher> watcher_;
  TimeUs next_ = 0;
  uint64_t offered_ = 0;
};

// What its boards have spent at most; empty where the run is not private.
std::string privacy_text(const ServerCore& core) {
  const std::optional<PrivacySpec>& privacy = core.options().run.privacy;
  if (!privacy) return "";
  uint64_t updates = 0;
  for (const Member& member : core.members()) updates = std::max(updates, member.last_settled);
  return format_text(", privacy spent: epsilon %.4g at delta %g", spent_epsilon(*privacy, updates),
                     privacy->delta);
}

void show_status(const ServerDaemon& daemon, const Control& control) {
  const ServerCore& core = daemon.core();
  uint32_t counted = 0;
  for (const Member& member : core.members()) counted += member.counted;
  const std::optional<FleetEvaluation>& evaluation = core.last_evaluation();
  log_info(
      "round %llu, publication %llu, %u workers, fleet %s %s%s, %.2f MB up, %.2f MB down, "
      "every %u steps, %s up (%s), %s down (%s), published within %.2g %% of the model%s",
      static_cast<unsigned long long>(core.round()),
      static_cast<unsigned long long>(core.publication()), counted,
      core.options().run.model.class_count > 0 ? "accuracy" : "r2",
      evaluation ? format_text("%.3f", evaluation->accuracy()).c_str() : "-",
      control.text().c_str(), static_cast<double>(daemon.progress().bytes_up) / 1e6,
      static_cast<double>(daemon.progress().bytes_down) / 1e6, core.directive().tau,
      codec_info(static_cast<CodecId>(core.directive().codec_up)).name,
      core.content().reason_up().c_str(),
      codec_info(static_cast<CodecId>(core.directive().codec_down)).name,
      core.content().reason_down().c_str(), 100 * core.gap().worst_share,
      privacy_text(core).c_str());
}

// Each worker has a connection, and the soft limit is often too low for a fleet.
void raise_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

Status write_model(const std::string& path, const ServerCore& core) {
  PACELINE_TRY(write_safetensors(path, core.options().run.model.layout, core.published(),
                                 model_metadata(core.options().run_text, core.checksum())));
  log_info("the model is in %s", path.c_str());
  return {};
}

}  // namespace

Status serve_run(const ServeOptions& options) {
  PACELINE_ASSIGN(ServeConfig config, load_config(options));
  Control control;
  PACELINE_TRY(control.open(options, config.core.run, config.schema));
  std::string model_file = options.model_file;
  if (model_file.empty() && !config.state_folder.empty())
    model_file = config.state_folder + "/model.safetensors";

  std::atomic<ServerDaemon*> running = nullptr;
  std::atomic<bool> stopped = false;
  const StopSignals signals([&](int) {
    stopped = true;
    if (ServerDaemon* daemon = running.load()) daemon->stop(ServerDaemon::Stop::kSuspend);
  });
  raise_file_limit();
  PACELINE_ASSIGN(std::unique_ptr<ServerDaemon> daemon, ServerDaemon::make(std::move(config)));
  running = daemon.get();
  if (stopped) daemon->stop(ServerDaemon::Stop::kSuspend);
  std::printf("listening on %s\n", daemon->address().c_str());
  std::fflush(stdout);

  TimeUs next_status = monotonic_now_us() + kStatusEveryUs;
  const Status status = daemon->run([&](const ServerDaemon& self) {
    const TimeUs now = monotonic_now_us();
    control.offer(self.core(), now);
    if (now < next_status) return;
    next_status += kStatusEveryUs;
    show_status(self, control);
  });
  running = nullptr;
  PACELINE_TRY(status);
  show_status(*daemon, control);
  const ServerCore& core = daemon->core();
  if (!model_file.empty()) PACELINE_TRY(write_model(model_file, core));
  log_info("%s: publication %llu, checksum %08x", core.finished() ? "the run is over" : "stopped",
           static_cast<unsigned long long>(core.publication()), core.checksum());
  return {};
}

}  // namespace paceline
