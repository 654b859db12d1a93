#include "tests/faults/storm_server.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "server/fleet_folder.h"
#include "tests/faults/growth.h"

namespace paceline::test {

Result<std::unique_ptr<StormServer>> StormServer::start(const StormServerOptions& options) {
  std::unique_ptr<StormServer> server(new StormServer(options));
  std::ofstream(options.folder + "/run.toml", std::ios::binary) << options.run_text;
  server->fleet_folder_ = options.folder + "/fleet";
  if (options.secure) {
    PACELINE_TRY(FleetFolder::make(server->fleet_folder_, {}, 1));
    PACELINE_ASSIGN(const FleetFolder fleet, FleetFolder::open(server->fleet_folder_));
    server->authority_ = std::make_unique<TlsFleet>(fleet.authority());
  }
  server->address_ = options.secure ? "tls+tcp://127.0.0.1:0" : "tcp://127.0.0.1:0";
  PACELINE_TRY(server->start_again());
  return server;
}

Status StormServer::start_again() {
  const std::string log = options_.folder + "/server";
  const size_t known = file_text(log + ".out").size();
  std::vector<std::string> arguments = {
      "serve",   options_.folder + "/run.toml", "--listen", address_,
      "--state", options_.folder + "/state",    "--log",    "debug"};
  if (options_.secure) arguments.insert(arguments.end(), {"--fleet", fleet_folder_});
  std::string program = options_.program;
  if (!options_.limits.empty()) {
    arguments.insert(arguments.begin(), {"-c", options_.limits + "; exec \"$0\" \"$@\"", program});
    program = "/bin/sh";
  }
  process_ = std::make_unique<Process>(ProcessOptions{program, arguments, log});
  const std::string words = "listening on ";
  std::string said;
  const auto listens = [&] {
    said = process_->out().substr(known);
    return said.ends_with('\n') || !process_->running();
  };
  if (!wait_until(listens) || !said.starts_with(words)) {
    std::string last = tail_of(process_->err());
    return fail(Code::kUnavailable, "the server does not start: %s", last.c_str());
  }
  address_ = said.substr(words.size(), said.find('\n') - words.size());
  return {};
}

Result<std::vector<TlsOptions>> StormServer::enlist(const std::vector<std::string>& names) {
  std::vector<TlsOptions> certificates;
  PACELINE_ASSIGN(const FleetFolder fleet, FleetFolder::open(fleet_folder_));
  PACELINE_TRY(fleet.update([&](FleetList* list) -> Status {
    for (const std::string& name : names) {
      certificates.push_back(authority_->worker(name));
      PACELINE_ASSIGN(const CertificateFacts facts,
                      read_certificate(certificates.back().certificate));
      list->enlist({.name = name,
                    .key = to_hex(facts.key),
                    .serial = facts.serial,
                    .enrolled_at_s = 1,
                    .revoked_at_s = 0});
    }
    return {};
  }));
  return certificates;
}

double StormServer::cpu_seconds() const {
  // pid (name) state and so on; of what stands behind the name the 12th and 13th are ticks.
  const std::string stat = file_text(format_text("/proc/%d/stat", process_->pid()));
  std::istringstream rest(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double StormServer::megabytes() const {
  const auto size = size_of_process(process_->pid());
  return size ? size->megabytes : 0;
}

size_t StormServer::files() const {
  const auto size = size_of_process(process_->pid());
  return size ? static_cast<size_t>(size->files) : 0;
}

}  // namespace paceline::test
