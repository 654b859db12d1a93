#include "server/command_simulate.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "simulate/pace_world.h"

namespace paceline {

namespace {

constexpr double kSecondsMax = static_cast<double>(PaceWorld::kRunUsMax) * 1e-6;

tl::unexpected<Status> wrong_oracle(std::string_view part) {
  return fail(Code::kInvalidArgument,
              "--oracle: '%.*s' is no time; give the seconds of an iteration on each worker, such "
              "as 1,1,2,4, or 7x1,3 for seven alike and one slower",
              static_cast<int>(std::min(part.size(), size_t{40})), part.data());
}

// "1,1,2.5" or "7x1,3".
Result<std::vector<TimeUs>> parse_oracle(std::string_view text) {
  std::vector<TimeUs> times;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    std::string_view rest = part;
    uint32_t count = 1;
    if (const size_t times_sign = part.find('x'); times_sign != std::string_view::npos) {
      const auto [end, error] = std::from_chars(part.data(), part.data() + times_sign, count);
      if (error != std::errc() || end != part.data() + times_sign || count < 1 ||
          count > DueQueue::kWorkersMax)
        return wrong_oracle(part);
      rest = part.substr(times_sign + 1);
    }
    double seconds = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), seconds, std::chars_format::fixed);
    if (error != std::errc() || end != rest.data() + rest.size() || !(seconds >= 1e-5) ||
        seconds > kSecondsMax || times.size() + count > DueQueue::kWorkersMax)
      return wrong_oracle(part);
    times.insert(times.end(), count, static_cast<TimeUs>(seconds * 1e6 + 0.5));
    if (comma == std::string_view::npos) return times;
    text.remove_prefix(comma + 1);
  }
}

std::string json_line(const std::string& pace, const SimulateOptions& options, size_t workers,
                      const PaceFigures& figures) {
  const nlohmann::ordered_json json = {{"pace", pace},
                                       {"workers", workers},
                                       {"seconds", options.seconds},
                                       {"seed", options.seed},
                                       {"iterations", figures.iterations},
                                       {"utilisation", figures.utilisation},
                                       {"discarded", figures.discarded},
                                       {"updates", figures.updates},
                                       {"rounds", figures.rounds},
                                       {"staleness_mean", figures.staleness_mean},
                                       {"staleness_max", figures.staleness_max},
                                       {"lead_max", figures.lead_max},
                                       {"events", figures.events}};
  return json.dump() + "\n";
}

}  // namespace

Result<std::string> simulate_paces(const SimulateOptions& options) {
  PACELINE_ASSIGN(const std::vector<TimeUs> times, parse_oracle(options.oracle));
  if (!(options.seconds > 0) || options.seconds > kSecondsMax)
    return fail(Code::kInvalidArgument, "--seconds has to be above 0, at most %.0f", kSecondsMax);
  std::vector<std::string> names = options.paces;
  if (names.empty())
    for (const PaceInfo& info : paces()) names.emplace_back(info.name);
  std::string text;
  if (!options.json)
    text = format_text("%-14s %10s %11s %9s %8s %14s %8s\n", "pace", "iterations", "utilisation",
                       "discarded", "rounds", "staleness mean", "lead max");
  for (const std::string& name : names) {
    PaceWorldOptions world;
    world.pace = name;
    world.iteration_us = times;
    world.jitter = options.jitter;
    world.slow_share = options.slow_share;
    world.slow_factor = options.slow_factor;
    world.seed = options.seed;
    world.planned_us = static_cast<TimeUs>(options.seconds * 1e6);
    PACELINE_ASSIGN(const std::unique_ptr<PaceWorld> fleet, PaceWorld::make(std::move(world)));
    fleet->run(static_cast<TimeUs>(options.seconds * 1e6));
    const PaceFigures figures = fleet->figures();
    text += options.json
                ? json_line(name, options, times.size(), figures)
                : format_text(
                      "%-14s %10llu %10.1f%% %9llu %8llu %14.2f %8llu\n", name.c_str(),
                      static_cast<unsigned long long>(figures.iterations),
                      100 * figures.utilisation, static_cast<unsigned long long>(figures.discarded),
                      static_cast<unsigned long long>(figures.rounds), figures.staleness_mean,
                      static_cast<unsigned long long>(figures.lead_max));
  }
  return text;
}

}  // namespace paceline
