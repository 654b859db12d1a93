#include "tests/system/site.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "runtime/base/status.h"

namespace paceline::test {

Site::Site() {
  adopt_orphans();
  // What whoever runs the tests has joined plays no part.
  setenv("HOME", folder_.file("home").c_str(), 1);
}

Process Site::server(const RunText& run, const std::vector<std::string>& arguments,
                     const std::string& address) {
  return server_of(write("run.toml", run.text()), arguments, address);
}

Process Site::server_of(const std::string& run_file, const std::vector<std::string>& arguments,
                        const std::string& address) {
  std::vector<std::string> all = {"serve", run_file, "--listen", address, "--log", "debug"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const size_t known = file_text(file("server.out")).size();
  Process process({PACELINE_EDGE_SERVER, all, file("server")});
  const std::string word = "listening on ";
  const auto listens = [&] { return process.out().find('\n', known) != std::string::npos; };
  REQUIRE_MESSAGE(wait_until([&] { return listens() || !process.running(); }), process.err());
  const std::string text = process.out().substr(known);
  REQUIRE_MESSAGE(text.starts_with(word), process.err());
  address_ = text.substr(word.size(), text.find('\n') - word.size());
  return process;
}

std::string Site::data(const std::string& name, uint32_t rows) {
  return write(name + ".csv", cloud_rows(name, rows));
}

Process Site::worker(const std::string& name, const std::vector<std::string>& arguments) {
  return dial({PACELINE_EDGE_WORKER}, address_, name, arguments);
}

Process Site::worker_at(const std::string& address, const std::string& name,
                        const std::vector<std::string>& arguments) {
  return dial({PACELINE_EDGE_WORKER}, address, name, arguments);
}

Process Site::worker_fed(const std::string& input, const std::string& name,
                         std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--data", "-"});
  return dial({PACELINE_EDGE_WORKER}, address_, name, arguments, input);
}

Process Site::worker_by(const std::vector<std::string>& program, const std::string& name) {
  return dial(program, address_, name, {});
}

Process Site::dial(std::vector<std::string> program, const std::string& address,
                   const std::string& name, const std::vector<std::string>& arguments,
                   const std::string& input) {
  std::vector<std::string> all = std::move(program);
  all.insert(all.end(), {address, "--name", name, "--log", "debug"});
  if (std::ranges::find(arguments, "--data") == arguments.end())
    all.insert(all.end(), {"--data", data(name)});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return Process({all.front(), {all.begin() + 1, all.end()}, file(name), input});
}

Process Site::start_worker(const std::vector<std::string>& arguments,
                           const std::string& log) const {
  return Process({PACELINE_EDGE_WORKER, arguments, file(log)});
}

Process Site::start_server(const std::vector<std::string>& arguments,
                           const std::string& log) const {
  return Process({PACELINE_EDGE_SERVER, arguments, file(log)});
}

void Site::append(const std::string& name, std::string_view text) const {
  std::ofstream(file(name), std::ios::binary | std::ios::app) << text;
}

Finished Site::run_server(const std::vector<std::string>& arguments) {
  return run_program({PACELINE_EDGE_SERVER, arguments, file(format_text("run%u", ++runs_))});
}

Finished Site::run_worker(const std::vector<std::string>& arguments) {
  return run_program({PACELINE_EDGE_WORKER, arguments, file(format_text("run%u", ++runs_))});
}

}  // namespace paceline::test
