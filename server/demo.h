// `edge_server demo`: a server and several real edge_worker processes of different speed on one
// machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct DemoOptions {
  std::string data_folder = "/usr/share/datasets/fashion-mnist";
  std::string out = "paceline-demo";
  std::string worker_program;  // empty: beside this program, or in the build tree
  uint32_t workers = 4;
  std::vector<double> speeds = {1, 1, 2, 4};  // of a step, in step_ms; repeated for more workers
  std::string link;  // "100mbit": put on each worker's connection; empty: as fast as it goes
  std::string pace = "compat";
  std::string freq = "trend";
  std::string codec_up = "s1r";
  std::string codec_down = "s1r";
  double rate = 0.05;
  double seconds = 75;
  uint64_t rounds = 0;
  double step_ms = 5;  // of the fastest board
  uint64_t seed = 1;
  bool compare = false;  // also the classic way: every step, every float, everybody waits
  bool json = false;
};

// Prints progress and the table, writes summary.json, accuracy.svg and model.safetensors to `out`.
// Errors: kNotFound for data or worker program; those of the server.
Status run_demo(const DemoOptions& options);

}  // namespace paceline
