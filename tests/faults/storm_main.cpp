// storm: five hundred boards at once, or connections that come to harm. docs/reliability.md,
// "Storm".
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "tests/faults/storm.h"
#include "tests/faults/storm_busy.h"

using namespace paceline;
using namespace paceline::test;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kUsage =
    "storm [--boards N] [--sources N] [--json] [--keep FOLDER]\n"
    "storm --siege [--plain] [--silent N] [--halves N] [--garbage N] [--json] [--keep FOLDER]\n"
    "  --boards N      that dial at once, and again after the server was killed (default 500)\n"
    "  --sources N     from so many addresses, 127.0.0.2 and on (default: all from one, as boards\n"
    "                  behind one router are)\n"
    "  --siege         instead: silent connections, half messages and garbage, and whether an\n"
    "                  honest board gets in\n"
    "  --plain         without TLS\n"
    "  --server FILE   another edge_server than this build's\n"
    "Exit code 1 if a board was not let in.\n";

std::atomic<uint32_t> sources = 0;  // 0: the system's choice
std::atomic<uint32_t> connects = 0;

struct Arguments {
  StormOptions storm;
  SiegeOptions siege;
  std::string keep;
  bool besieges = false;
  bool json = false;
};

// False: not understood.
bool read_arguments(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string { return ++i < argc ? argv[i] : ""; };
    const auto number = [&] {
      return static_cast<uint32_t>(std::strtoul(value().c_str(), nullptr, 10));
    };
    if (word == "--boards")
      arguments->storm.boards = number();
    else if (word == "--sources")
      sources = number();
    else if (word == "--siege")
      arguments->besieges = true;
    else if (word == "--plain")
      arguments->siege.secure = false;
    else if (word == "--silent")
      arguments->siege.silent = number();
    else if (word == "--halves")
      arguments->siege.halves = number();
    else if (word == "--garbage")
      arguments->siege.garbage = number();
    else if (word == "--json")
      arguments->json = true;
    else if (word == "--keep")
      arguments->keep = value();
    else if (word == "--server")
      arguments->storm.edge_server = arguments->siege.edge_server = value();
    else
      return false;
  }
  return arguments->storm.boards > 0;
}

Json json_of(const Arrival& arrival) {
  return {{"boards", arrival.boards},
          {"half_s", arrival.half_s},
          {"all_s", arrival.all_s},
          {"server_cpu_s", arrival.server_cpu_s},
          {"cut_off", arrival.cut_off},
          {"work_p50_ms", arrival.work_p50_ms},
          {"work_p99_ms", arrival.work_p99_ms},
          {"works", arrival.works}};
}

void print(const char* what, const Arrival& arrival) {
  std::printf(
      "%-9s %6llu %8.2f %8.2f %9.2f %8.0f %8llu %9.2f %9.2f\n", what,
      static_cast<unsigned long long>(arrival.boards), arrival.half_s, arrival.all_s,
      arrival.server_cpu_s,
      arrival.server_cpu_s > 0 ? static_cast<double>(arrival.boards) / arrival.server_cpu_s : 0,
      static_cast<unsigned long long>(arrival.cut_off), arrival.work_p50_ms, arrival.work_p99_ms);
}

void print(const StormReport& report, bool json) {
  if (json) {
    const Json whole = {{"first", json_of(report.first)},     {"quiet", json_of(report.quiet)},
                        {"flooded", json_of(report.flooded)}, {"again", json_of(report.again)},
                        {"server_mb", report.megabytes},      {"server_files", report.files}};
    std::printf("%s\n", whole.dump(2).c_str());
    return;
  }
  std::printf("%-9s %6s %8s %8s %9s %8s %8s %9s %9s\n", "", "boards", "half s", "all s", "server s",
              "per s", "cut off", "p50 ms", "p99 ms");
  print("first", report.first);
  print("all there", report.quiet);
  print("flooded", report.flooded);
  print("again", report.again);
  std::printf("server with all there: %.1f MB, %.0f open files\n", report.megabytes, report.files);
}

void print(const SiegeReport& report, bool json) {
  const Json whole = {
      {"honest_before_s", report.honest_before_s},   {"honest_during_s", report.honest_during_s},
      {"server_mb_before", report.megabytes_before}, {"server_mb_during", report.megabytes_during},
      {"files_before", report.files_before},         {"files_during", report.files_during},
      {"files_after", report.files_after},           {"files_back_s", report.files_back_s}};
  if (json)
    std::printf("%s\n", whole.dump(2).c_str());
  else
    for (const auto& [name, number] : whole.items())
      std::printf("%-18s %s\n", name.c_str(), number.dump().c_str());
}

int run(const Arguments& arguments) {
  std::string why;
  if (arguments.besieges) {
    const Result<SiegeReport> report = siege(arguments.siege);
    if (report) return print(*report, arguments.json), 0;
    why = report.error().message();
  } else {
    const Result<StormReport> report = storm(arguments.storm);
    if (report) return print(*report, arguments.json), 0;
    why = report.error().message();
  }
  std::fprintf(stderr, "storm: %s\n", why.c_str());
  return 1;
}

}  // namespace

// Stands before the system's: a board of another address binds its socket first.
extern "C" int connect(int descriptor, const sockaddr* address, socklen_t length) {
  if (sources > 0 && address->sa_family == AF_INET) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + connects++ % sources);
    static_cast<void>(bind(descriptor, reinterpret_cast<const sockaddr*>(&from), sizeof from));
  }
  return static_cast<int>(syscall(SYS_connect, descriptor, address, length));
}

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.storm.edge_server = arguments.siege.edge_server = PACELINE_EDGE_SERVER;
  arguments.storm.busy_program = "/proc/self/exe";
  set_log_level(LogLevel::kOff);  // of this program's own ends
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const std::string role = argv[argc > 1 ? 1 : 0];
  if (argc == 5 && (role == "--busy" || role == "--flooding")) {
    const Status status = role == "--busy" ? run_busy_board(argv[2], argv[3], argv[4])
                                           : run_flooding_board(argv[2], argv[3], argv[4]);
    std::fprintf(stderr, "storm: %s\n", status.message().c_str());
    return 1;
  }
  if (!read_arguments(argc, argv, &arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  std::string folder = arguments.keep;
  if (folder.empty())
    folder = (std::filesystem::temp_directory_path() / "paceline-storm-XXXXXX").string();
  if (arguments.keep.empty() ? mkdtemp(folder.data()) == nullptr
                             : !std::filesystem::create_directories(folder)) {
    std::fprintf(stderr, "storm: %s can't be made, or is there already\n", folder.c_str());
    return 2;
  }
  arguments.storm.folder = arguments.siege.folder = folder;
  const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  arguments.storm.say = arguments.siege.say = say;
  const int code = run(arguments);
  if (arguments.keep.empty() && code == 0) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  } else {
    std::fprintf(stderr, "logs are in %s\n", folder.c_str());
  }
  return code;
}
