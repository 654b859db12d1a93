#include "simulate/experiment.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/config.h"
#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "simulate/experiment_grid.h"

namespace paceline {

namespace {

constexpr uint64_t kRunFileBytesMax = uint64_t{1} << 20;
constexpr double kSecondsMax = 1e7;  // 116 days
constexpr double kNever = -1;
constexpr double kEvaluationsMax = 100'000;
constexpr size_t kRunsMax = 100'000;

// The text of the inline run as a file of its own, with every line and column where it was:
// "[run.model]" becomes "[    model]", other tables become empty lines.
std::string inline_run(std::string_view text) {
  constexpr std::string_view kPrefix = "run.";
  std::string run;
  bool inside = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos && line[first] == '[') {
      const size_t name = line.find_first_not_of(" \t[", first);
      inside = name != std::string::npos && line.compare(name, kPrefix.size(), kPrefix) == 0;
      if (inside) line.replace(name, kPrefix.size(), kPrefix.size(), ' ');
    }
    run += (inside ? line : "") + "\n";
  }
  return run;
}

Status read_run(const Config& config, std::string_view text, const std::string& folder,
                Experiment* experiment) {
  ConfigSection section = config.section("run");
  std::string file;
  section.read("file", &file);
  bool inlined = false;
  for (const char* table : {"model", "layer", "training", "data", "communication", "server"})
    inlined = section.has(table) || inlined;
  PACELINE_TRY(section.finish());
  if (file.empty() == !inlined)
    return fail(Code::kInvalidArgument,
                "%s: [run] has to be either file = \"run.toml\" or [run.model], [[run.layer]], "
                "[run.training] and [run.communication]",
                section.place_of("file").c_str());
  if (inlined) {
    experiment->run_text = inline_run(text);
    return check_run(experiment->run_text, experiment->source);
  }
  const std::string path = file.starts_with('/') ? file : folder + "/" + file;
  PACELINE_ASSIGN(const Bytes bytes, read_file(path, kRunFileBytesMax));
  experiment->run_text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return check_run(experiment->run_text, path);
}

Status read_general(const Config& config, Experiment* experiment) {
  ConfigSection section = config.section("experiment");
  section.read("seconds", &experiment->seconds, 0.001, kSecondsMax);
  section.read("seed", &experiment->seed, 0, INT64_MAX / 2);
  section.read("repeats", &experiment->repeats, 1, 1000);
  section.read("train", &experiment->train);
  section.read("workers", &experiment->workers, 1, kWorkersMax);
  section.read("targets", &experiment->targets, 0, 1);
  experiment->evaluate_every_s = experiment->seconds / 60;
  section.read("evaluate_every_s", &experiment->evaluate_every_s,
               experiment->seconds / kEvaluationsMax, kSecondsMax);
  section.read("backend", &experiment->backend);
  return section.finish();
}

Status read_data(const Config& config, const std::string& folder, Experiment* experiment) {
  ConfigSection section = config.section("data");
  DataPlan& data = experiment->data;
  section.read("file", &data.file);
  section.read("labels", &data.label_file);
  section.read("label_column", &data.label_column);
  section.read("control_rows", &data.control_rows, 1, UINT32_MAX);
  section.read("dirichlet", &data.dirichlet, 0, 1e6);
  PACELINE_TRY(section.finish());
  if (!experiment->train) return {};
  if (data.file.empty() || data.control_rows == 0)
    return fail(Code::kInvalidArgument,
                "%s: [data] needs file and control_rows, how many rows at the end the models are "
                "judged by; or set train = false",
                section.place_of("file").c_str());
  for (std::string* path : {&data.file, &data.label_file})
    if (!path->empty() && !path->starts_with('/')) *path = folder + "/" + *path;
  return {};
}

// "10-20": seconds.
Status read_outages(ConfigSection* section, LinkPlan* link) {
  std::vector<std::string> texts;
  section->read("outages", &texts);
  for (const std::string& text : texts) {
    double from = 0, to = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, from, std::chars_format::fixed);
    const bool dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
    const auto second =
        dash ? std::from_chars(first.ptr + 1, end, to, std::chars_format::fixed) : first;
    if (!dash || second.ec != std::errc() || second.ptr != end || !(from >= 0 && to > from) ||
        to > kSecondsMax)
      return fail(Code::kInvalidArgument, "%s: an outage is written \"10-20\", in seconds",
                  section->place_of("outages").c_str());
    link->outages.push_back({static_cast<TimeUs>(from * 1e6), static_cast<TimeUs>(to * 1e6)});
  }
  return {};
}

Status read_worker(ConfigSection section, Experiment* experiment) {
  WorkerPlan plan;
  uint32_t count = 1;
  section.read("name", &plan.name);
  section.read("count", &count, 1, kWorkersMax);
  SpeedPlan& speed = plan.speed;
  section.read("step_ms", &speed.step_ms, 0.001, 1e6);
  section.read("step_sigma", &speed.step_sigma, 0, 3);
  section.read("slow_share", &speed.slow_share, 0, 1);
  section.read("slow_factor", &speed.slow_factor, 1, 1000);
  section.read("slow_s", &speed.slow_s, 0.001, kSecondsMax);
  section.read("middle_factor", &speed.middle_factor, 0.01, 1000);
  section.read("day_s", &speed.day_s, 0, kSecondsMax);
  section.read("day_depth", &speed.day_depth, 0, 100);
  LinkPlan& link = plan.link;
  section.read("link", &link.rate);
  section.read("delay_ms", &link.delay_ms, 0, 1e6);
  section.read("jitter_ms", &link.jitter_ms, 0, 1e6);
  section.read("loss", &link.loss, 0, 1);
  section.read("duplication", &link.duplication, 0, 1);
  PACELINE_TRY(read_outages(&section, &link));
  section.read("joins_at", &plan.joins_at, 0, kSecondsMax);
  section.read("leaves_at", &plan.leaves_at, 0, kSecondsMax);
  section.read("crash_at", &plan.crash_at, 0, kSecondsMax);
  section.read("back_after", &plan.back_after, 0, kSecondsMax);
  PACELINE_TRY(section.finish());
  if (Result<LoopbackFaults> faults = link_faults(link); !faults)
    return fail(Code::kInvalidArgument, "%s: %s", section.place_of("link").c_str(),
                faults.error().message().c_str());
  if (plan.back_after != kNever && plan.crash_at == kNever)
    return fail(Code::kInvalidArgument, "%s: back_after needs crash_at",
                section.place_of("back_after").c_str());
  if (experiment->worker_plans.size() + count > kWorkersMax)
    return fail(Code::kInvalidArgument, "%s: more than %u workers",
                section.place_of("count").c_str(), kWorkersMax);
  for (uint32_t i = 0; i < count; ++i) {
    WorkerPlan one = plan;
    if (one.name.empty())
      one.name = format_text("board%zu", experiment->worker_plans.size() + 1);
    else if (count > 1)
      one.name += format_text("%u", i + 1);
    const bool taken = std::ranges::find(experiment->worker_plans, one.name, &WorkerPlan::name) !=
                       experiment->worker_plans.end();
    if (taken || one.name.size() > kNameBytesMax)
      return fail(Code::kInvalidArgument, "%s: '%.*s' is another worker's name, or too long",
                  section.place_of("name").c_str(), static_cast<int>(kNameBytesMax),
                  one.name.c_str());
    experiment->worker_plans.push_back(std::move(one));
  }
  return {};
}

}  // namespace

size_t Experiment::point_count() const {
  size_t count = 1;
  for (const GridAxis& axis : grid) count *= axis.values.size();
  return count;
}

Result<Experiment> parse_experiment(std::string_view text, const std::string& source,
                                    const std::string& folder) {
  PACELINE_ASSIGN(const Config config, Config::parse(text, source));
  PACELINE_TRY(config.only({"experiment", "run", "data", "worker", "grid"}));
  Experiment experiment;
  experiment.source = source;
  PACELINE_TRY(read_general(config, &experiment));
  PACELINE_TRY(read_run(config, text, folder, &experiment));
  PACELINE_TRY(read_data(config, folder, &experiment));
  for (ConfigSection& section : config.sections("worker"))
    PACELINE_TRY(read_worker(std::move(section), &experiment));
  if (experiment.worker_plans.empty()) {
    WorkerPlan plain;
    plain.name = "board1";
    experiment.worker_plans.push_back(plain);
  }
  PACELINE_TRY(read_grid(config.section("grid"), &experiment));
  if (experiment.run_count() > kRunsMax)
    return fail(Code::kInvalidArgument, "%s: %zu runs are too many; there can be %zu",
                source.c_str(), experiment.run_count(), kRunsMax);
  return experiment;
}

}  // namespace paceline
