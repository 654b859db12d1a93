// A fleet of real processes on this machine: one server, workers, their data, in a folder of its
// own.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/system/process.h"
#include "tests/system/run_text.h"

namespace paceline::test {

class Site {
 public:
  Site();

  std::string file(const std::string& name) const { return folder_.file(name); }
  std::string write(const std::string& name, std::string_view text) const {
    return folder_.write(name, text);
  }

  // Puts text behind what a file holds.
  void append(const std::string& name, std::string_view text) const;

  // `edge_server serve` of `run` at `address` and waits until it listens; its log is at level debug
  // and its state, if arguments name none, is kept nowhere.
  Process server(const RunText& run, const std::vector<std::string>& arguments = {},
                 const std::string& address = "127.0.0.1:0");
  // The same of a run's file.
  Process server_of(const std::string& run_file, const std::vector<std::string>& arguments = {},
                    const std::string& address = "127.0.0.1:0");
  // Where the newest server listens.
  const std::string& address() const { return address_; }

  // A CSV with `rows` rows, other ones for every name.
  std::string data(const std::string& name, uint32_t rows = 200);
  // `edge_worker` with data of its own; at level debug.
  Process worker(const std::string& name, const std::vector<std::string>& arguments = {});
  // Trains on what comes from the file or FIFO `input`.
  Process worker_fed(const std::string& input, const std::string& name,
                     std::vector<std::string> arguments = {});
  // Another server's address.
  Process worker_at(const std::string& address, const std::string& name,
                    const std::vector<std::string>& arguments = {});
  // Another program, such as an emulator and what it runs.
  Process worker_by(const std::vector<std::string>& program, const std::string& name);

  // Any command of edge_server; LOG is a name for its streams.
  Process start_server(const std::vector<std::string>& arguments, const std::string& log) const;
  Process start_worker(const std::vector<std::string>& arguments, const std::string& log) const;
  // To their ends.
  Finished run_server(const std::vector<std::string>& arguments);
  Finished run_worker(const std::vector<std::string>& arguments);

 private:
  Process dial(std::vector<std::string> program, const std::string& address,
               const std::string& name, const std::vector<std::string>& arguments,
               const std::string& input = "/dev/null");

  TempFolder folder_;
  std::string address_;
  uint32_t runs_ = 0;
};

}  // namespace paceline::test
