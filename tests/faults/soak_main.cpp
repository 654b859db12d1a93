// soak: one run under faults; exit code 1 if a promise was broken. docs/reliability.md, "Soak".
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "runtime/base/signals.h"
#include "runtime/base/status.h"
#include "tests/faults/soak.h"

using namespace paceline;
using namespace paceline::test;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kUsage =
    "soak [--minutes N] [--seed S] [--json] [--totals FILE] [--keep FOLDER] [--spare-server]\n"
    "     [--only A,B]\n"
    "  --minutes N      of faults (default 1); every fault is a line on stderr, with its time\n"
    "  --seed S         what is drawn (default: a new one, printed)\n"
    "  --json           the sums as a JSON object on stdout\n"
    "  --totals FILE    adds this run's counts to those of FILE\n"
    "  --keep FOLDER    leaves data, logs and state there\n"
    "  --server FILE, --worker FILE   other programs than this build's\n"
    "  --spare-server   the server is neither killed nor stopped: how it grows is to be seen\n"
    "  --only A,B       these kinds of faults: server_kill, server_power, server_stop, full_disk,\n"
    "                   worker_kill, worker_stop, worker_pause, boards_power, network, or none\n"
    "Exit code 1 if a promise was broken. Power cuts and full disks need root and loop devices.\n";

struct Arguments {
  SoakOptions soak;
  std::string totals, keep, kinds;
  bool json = false;
};

// False: there is no such kind.
bool read_kinds(const std::string& text, std::vector<std::string>* kinds) {
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word != "none" &&
        std::ranges::find(kSoakFaults, word, &SoakFault::name) == std::end(kSoakFaults))
      return false;
    kinds->push_back(word);
  }
  return true;
}

// False: not understood.
bool read_arguments(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string { return ++i < argc ? argv[i] : ""; };
    if (word == "--minutes")
      arguments->soak.seconds = 60 * std::strtod(value().c_str(), nullptr);
    else if (word == "--seed")
      arguments->soak.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (word == "--json")
      arguments->json = true;
    else if (word == "--totals")
      arguments->totals = value();
    else if (word == "--keep")
      arguments->keep = value();
    else if (word == "--server")
      arguments->soak.edge_server = value();
    else if (word == "--worker")
      arguments->soak.edge_worker = value();
    else if (word == "--only")
      arguments->kinds = value();
    else if (word == "--spare-server")
      arguments->soak.spares_server = true;
    else
      return false;
  }
  return arguments->soak.seconds > 0 && read_kinds(arguments->kinds, &arguments->soak.only);
}

Json json_of(const SoakReport& report) {
  const History::Verdict& history = report.history;
  Json json = {{"acknowledged", history.acknowledged},
               {"lost", history.lost},
               {"doubled", history.doubled},
               {"taken_though_refused", history.taken_though_refused},
               {"models_differ", history.models_differ},
               {"not_durable", history.not_durable},
               {"in_snapshots", history.in_snapshots},
               {"faults", report.faults},
               {"kills", report.kills},
               {"stops", report.stops},
               {"power_cuts", report.power_cuts},
               {"full_disks", report.full_disks},
               {"worker_kills", report.worker_kills},
               {"worker_stops", report.worker_stops},
               {"worker_power_cuts", report.worker_power_cuts},
               {"worker_pauses", report.worker_pauses},
               {"network_faults", report.network_faults},
               {"broken_promises", report.broken.size() + history.reasons.size()}};
  return json;
}

void add_growth(Json* json, const char* who, const std::optional<Growth::Slope>& slope) {
  const std::string name = who;
  (*json)["rss_slope_mb_per_h_" + name] = slope ? Json(slope->megabytes) : Json();
  (*json)["fds_slope_per_h_" + name] = slope ? Json(slope->files) : Json();
}

// Counts of all runs so far: sums, and of the longest restart the longest.
void add_totals(const std::string& path, const Json& counts, double minutes, double restart_s) {
  Json totals = Json::object();
  if (std::ifstream file(path); file) totals = Json::parse(file, nullptr, false);
  if (!totals.is_object()) totals = Json::object();
  totals["runs"] = totals.value("runs", uint64_t{0}) + 1;
  totals["minutes"] = totals.value("minutes", 0.0) + minutes;
  for (const auto& [name, count] : counts.items())
    totals[name] = totals.value(name, uint64_t{0}) + count.get<uint64_t>();
  totals["restart_s_max"] = std::max(totals.value("restart_s_max", 0.0), restart_s);
  std::ofstream(path) << totals.dump(2) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.soak.edge_server = PACELINE_EDGE_SERVER;
  arguments.soak.edge_worker = PACELINE_EDGE_WORKER;
  arguments.soak.seed = std::random_device()() % 1'000'000;
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!read_arguments(argc, argv, &arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::string folder = arguments.keep;
  if (folder.empty())
    folder = (std::filesystem::temp_directory_path() / "paceline-soak-XXXXXX").string();
  if (arguments.keep.empty() ? mkdtemp(folder.data()) == nullptr
                             : !std::filesystem::create_directories(folder)) {
    std::fprintf(stderr, "soak: %s can't be made, or is there already\n", folder.c_str());
    return 2;
  }
  arguments.soak.folder = folder;
  arguments.soak.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(arguments.soak.seed));

  std::atomic<bool> stopped = false;
  const StopSignals signals([&](int) { stopped = true; });
  arguments.soak.stopped = [&] { return stopped.load(); };
  const SoakReport report = soak(arguments.soak);
  for (const std::string& reason : report.history.reasons)
    std::fprintf(stderr, "BROKEN: %s\n", reason.c_str());
  const Json counts = json_of(report);
  Json json = {
      {"seed", arguments.soak.seed}, {"run", report.run}, {"minutes", report.seconds / 60}};
  json.update(counts);
  json["generations"] = report.generations;
  json["restart_s_max"] = report.restart_s_max;
  add_growth(&json, "server", report.server_growth);
  add_growth(&json, "worker", report.worker_growth);
  if (!report.no_power_cuts.empty()) json["no_power_cuts"] = report.no_power_cuts;
  if (arguments.json) std::printf("%s\n", json.dump(2).c_str());
  std::fprintf(stderr, "%llu acknowledged, %llu lost, %llu doubled: %s\n",
               static_cast<unsigned long long>(report.history.acknowledged),
               static_cast<unsigned long long>(report.history.lost),
               static_cast<unsigned long long>(report.history.doubled),
               report.clean() ? "every promise was kept" : "BROKEN");
  if (!arguments.totals.empty())
    add_totals(arguments.totals, counts, report.seconds / 60, report.restart_s_max);
  if (arguments.keep.empty() && report.clean()) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  } else {
    std::fprintf(stderr, "logs are in %s\n", folder.c_str());
  }
  return report.clean() ? 0 : 1;
}
