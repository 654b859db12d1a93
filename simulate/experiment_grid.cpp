#include "simulate/experiment_grid.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/freq/freq.h"
#include "server/run_config.h"

namespace paceline {

namespace {

enum class Kind { kText, kNumber, kWhole };

// `table`: of the run's file; null: what the experiment itself reads.
struct AxisInfo {
  const char* key;
  Kind kind;
  const char* table;
  double lowest, highest;
};

constexpr AxisInfo kAxes[] = {{"pace", Kind::kText, "communication", 0, 0},
                              {"freq", Kind::kText, "communication", 0, 0},
                              {"codec", Kind::kText, "communication", 0, 0},  // both ways
                              {"codec_up", Kind::kText, "communication", 0, 0},
                              {"codec_down", Kind::kText, "communication", 0, 0},
                              {"rate_end", Kind::kNumber, "communication", 0, 1},
                              {"rate", Kind::kNumber, "training", 1e-9, 100},
                              {"momentum", Kind::kNumber, "training", 0, 0.9999},
                              {"batch", Kind::kWhole, "training", 1, 65'536},
                              {"link", Kind::kText, nullptr, 0, 0},
                              {"loss", Kind::kNumber, nullptr, 0, 1},
                              {"workers", Kind::kWhole, nullptr, 1, kWorkersMax},
                              {"dirichlet", Kind::kNumber, nullptr, 0, 1e6}};

const AxisInfo& info_of(const std::string& key) {
  return *std::ranges::find_if(kAxes, [&](const AxisInfo& info) { return info.key == key; });
}

// What one run differs by.
struct Choice {
  std::string key;
  GridValue value;
};

Status read_axis(ConfigSection* section, const AxisInfo& info, GridAxis* axis) {
  axis->key = info.key;
  if (info.kind == Kind::kText) {
    std::vector<std::string> texts;
    section->read(info.key, &texts);
    axis->values.assign(texts.begin(), texts.end());
    return {};
  }
  std::vector<double> numbers;
  section->read(info.key, &numbers, info.lowest, info.highest);
  for (const double number : numbers) {
    if (info.kind == Kind::kNumber) {
      axis->values.emplace_back(number);
      continue;
    }
    const auto whole = static_cast<uint64_t>(number);
    if (static_cast<double>(whole) != number)
      return fail(Code::kInvalidArgument, "%s: grid.%s has to be a list of whole numbers",
                  section->place_of(info.key).c_str(), info.key);
    axis->values.emplace_back(whole);
  }
  return {};
}

std::vector<ConfigValue> run_values(const std::vector<Choice>& choices, uint64_t seed) {
  std::vector<ConfigValue> values = {{"training", "seed", seed}};
  for (const Choice& choice : choices) {
    const AxisInfo& info = info_of(choice.key);
    if (info.table == nullptr) continue;
    if (choice.key == "codec") {
      values.push_back({info.table, "codec_up", choice.value});
      values.push_back({info.table, "codec_down", choice.value});
    } else {
      values.push_back({info.table, choice.key, choice.value});
    }
  }
  return values;
}

void set_workers(uint64_t count, std::vector<WorkerPlan>* workers) {
  const std::vector<WorkerPlan> listed = *workers;
  workers->clear();
  for (uint64_t i = 0; i < count; ++i) {
    workers->push_back(listed[static_cast<size_t>(i % listed.size())]);
    workers->back().name = format_text("board%llu", static_cast<unsigned long long>(i + 1));
  }
}

void choose_for_experiment(const Choice& choice, RunPlan* plan) {
  if (choice.key == "workers") set_workers(std::get<uint64_t>(choice.value), &plan->workers);
  if (choice.key == "dirichlet") plan->data.dirichlet = std::get<double>(choice.value);
}

// After the fleet's size is settled.
void choose_for_workers(const Choice& choice, RunPlan* plan) {
  for (WorkerPlan& worker : plan->workers) {
    if (choice.key == "link") worker.link.rate = std::get<std::string>(choice.value);
    if (choice.key == "loss") worker.link.loss = std::get<double>(choice.value);
  }
}

Status check_policies(const ServerOptions& server, const std::vector<WorkerPlan>& workers) {
  if (Result<std::unique_ptr<Pace>> pace = make_pace(server.pace); !pace)
    return fail(std::move(pace).error());
  if (Result<std::unique_ptr<Freq>> freq = make_freq(server.freq); !freq)
    return fail(std::move(freq).error());
  if (!server.codec_down_auto) PACELINE_TRY(check_codec_down(server.codec_down));
  for (const WorkerPlan& worker : workers)
    if (Result<LoopbackFaults> faults = link_faults(worker.link); !faults)
      return fail(std::move(faults).error());
  return {};
}

Result<RunPlan> plan_choices(const Experiment& experiment, const std::vector<Choice>& choices,
                             uint64_t seed) {
  RunPlan plan;
  plan.seed = seed;
  plan.seconds = experiment.seconds;
  plan.evaluate_every_s = experiment.evaluate_every_s;
  plan.targets = experiment.targets;
  plan.backend = experiment.backend;
  plan.data = experiment.data;
  plan.workers = experiment.worker_plans;
  if (experiment.workers > 0) set_workers(experiment.workers, &plan.workers);
  for (const Choice& choice : choices) choose_for_experiment(choice, &plan);
  for (const Choice& choice : choices) choose_for_workers(choice, &plan);
  for (const Choice& choice : choices)
    plan.settings.emplace_back(choice.key, grid_text(choice.value));
  PACELINE_ASSIGN(const std::string text,
                  with_values(experiment.run_text, run_values(choices, seed)));
  PACELINE_ASSIGN(ServeConfig serve, parse_serve_config(text, experiment.source));
  plan.server = std::move(serve.core);
  for (const WorkerPlan& worker : plan.workers) plan.server.fleet.push_back(worker.name);
  PACELINE_TRY(check_policies(plan.server, plan.workers));
  return plan;
}

}  // namespace

std::string grid_text(const GridValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return format_text("%.10g", *number);
  return format_text("%llu", static_cast<unsigned long long>(std::get<uint64_t>(value)));
}

Status check_run(const std::string& run_text, const std::string& source) {
  PACELINE_ASSIGN(const ServeConfig serve, parse_serve_config(run_text, source));
  const Status status = check_policies(serve.core, {});
  if (status.ok()) return {};
  PACELINE_ASSIGN(const Config config, Config::parse(run_text, source));
  return fail(Code::kInvalidArgument, "%s: %s",
              config.section("communication").place_of("pace").c_str(), status.message().c_str());
}

Status read_grid(ConfigSection section, Experiment* experiment) {
  for (const AxisInfo& info : kAxes) {
    GridAxis axis;
    PACELINE_TRY(read_axis(&section, info, &axis));
    if (!axis.values.empty()) experiment->grid.push_back(std::move(axis));
  }
  PACELINE_TRY(section.finish());
  for (const GridAxis& axis : experiment->grid)
    for (const GridValue& value : axis.values)
      if (Result<RunPlan> plan = plan_choices(*experiment, {{axis.key, value}}, 0); !plan)
        return fail(Code::kInvalidArgument, "%s: grid.%s: %s",
                    section.place_of(axis.key.c_str()).c_str(), axis.key.c_str(),
                    plan.error().message().c_str());
  return {};
}

Result<RunPlan> plan_run(const Experiment& experiment, size_t index) {
  const auto repeats = static_cast<size_t>(experiment.repeats);
  const size_t point = index / repeats;
  std::vector<Choice> choices;
  size_t rest = point;
  for (size_t i = experiment.grid.size(); i-- > 0;) {
    const GridAxis& axis = experiment.grid[i];
    choices.insert(choices.begin(), {axis.key, axis.values[rest % axis.values.size()]});
    rest /= axis.values.size();
  }
  PACELINE_ASSIGN(RunPlan plan,
                  plan_choices(experiment, choices, experiment.seed + index % repeats));
  plan.point = point;
  return plan;
}

std::string RunPlan::identity() const {
  const auto as_number = [](uint64_t number) { return static_cast<unsigned long long>(number); };
  std::string text = server.run_text;
  text += format_text("seconds %.17g evaluate %.17g seed %llu backend %s\n", seconds,
                      evaluate_every_s, as_number(seed), backend.c_str());
  for (const auto& [key, value] : settings) text += key + " " + value + "\n";
  for (const double target : targets) text += format_text("target %.17g\n", target);
  text += format_text("data %s %s %s control %llu dirichlet %.17g\n", data.file.c_str(),
                      data.label_file.c_str(), data.label_column.c_str(),
                      as_number(data.control_rows), data.dirichlet);
  for (const WorkerPlan& worker : workers) {
    const SpeedPlan& speed = worker.speed;
    const LinkPlan& link = worker.link;
    text += format_text("worker %s %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g",
                        worker.name.c_str(), speed.step_ms, speed.step_sigma, speed.slow_share,
                        speed.slow_factor, speed.slow_s, speed.middle_factor, speed.day_s,
                        speed.day_depth);
    text += format_text(" link %s %.17g %.17g %.17g %.17g", link.rate.c_str(), link.delay_ms,
                        link.jitter_ms, link.loss, link.duplication);
    for (const LoopbackFaults::Outage& outage : link.outages)
      text += format_text(" outage %lld %lld", static_cast<long long>(outage.from),
                          static_cast<long long>(outage.to));
    text += format_text(" life %.17g %.17g %.17g %.17g\n", worker.joins_at, worker.leaves_at,
                        worker.crash_at, worker.back_after);
  }
  return text;
}

}  // namespace paceline
