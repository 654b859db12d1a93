// edge_server: the parameter server and its tools.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <ctime>

#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/freq/freq.h"
#include "runtime/pace/pace.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"
#include "server/cli_onnx.h"
#include "server/cli_replay.h"
#include "server/codec_bench.h"
#include "server/codec_gate.h"
#include "server/command_backup.h"
#include "server/command_compress.h"
#include "server/command_experiment.h"
#include "server/command_fleet.h"
#include "server/command_simulate.h"
#include "server/demo.h"
#include "server/fleet_folder.h"
#include "server/init_run.h"
#include "server/run_config.h"
#include "server/serve.h"
#include "simulate/experiment.h"

namespace {

using namespace paceline;

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

constexpr const char* kExamples = R"(
Examples:
  edge_server demo                             train on this machine with four workers
  edge_server demo --compare --link 100mbit    and beside it the classic way, on the same link
  edge_server init                             make a fleet: its keys and its list of workers
  edge_server init --from sample.csv           and write a commented run for this table
  edge_server example > run.toml               a commented run to start from
  edge_server serve run.toml                   serve it to the fleet's workers
  edge_server import net.onnx --check          what of an ONNX model could be trained further
  edge_server export paceline-state            a run's model as ONNX
  edge_server enrol greenhouse                 print a code; on the board: edge_worker join HOST -
  edge_server revoke greenhouse                cut a lost board off
  edge_server show-what-leaves run.toml        what its boards send, field by field
  edge_server backup stick/paceline --state S  copy the fleet's keys and a run, which may be at work
  edge_server simulate --example > grid.toml   a commented experiment to start from
  edge_server simulate grid.toml               train whole fleets under a virtual clock and compare
  edge_server simulate --oracle 1,1,2,4        what each pace makes of boards of these seconds a step

Exit codes: 0 the run ended or was stopped in order, 1 it failed, 2 bad options or files.)";

struct BenchCommand {
  CodecBenchOptions options;
  bool json = false;
  bool gate = false;
};

CLI::App* add_bench_codecs(CLI::App* group, BenchCommand* bench) {
  CLI::App* command = group->add_subcommand("codecs", "speed of the codecs on one thread");
  command->add_option("--elements", bench->options.elements, "one or more sizes of an update")
      ->check(CLI::Range(1024, 64 * 1024 * 1024))
      ->capture_default_str();
  command->add_option("--codec", bench->options.codecs, "one or more (all)");
  command->add_option("--kernels", bench->options.kernel_sets, "one or more kernel sets (all)");
  command->add_option("--repeats", bench->options.repeats, "the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--repeat-ms", bench->options.repeat_ms, "how long one takes at least")
      ->check(CLI::Range(0.0, 60'000.0))
      ->capture_default_str();
  command->add_flag("--json", bench->json, "print JSON instead of a table");
  command
      ->add_flag("--gate", bench->gate,
                 "only what has targets, slow rows again; exit with 1 if one stays too slow")
      ->excludes("--elements", "--codec", "--kernels", "--repeats", "--repeat-ms");
  return command;
}

CLI::App* add_bench_compress(CLI::App* group, CompressOptions* options) {
  CLI::App* command = group->add_subcommand(
      "compress", "accuracy and bytes of each codec with your model and your rows");
  command->add_option("run", options->run_file, "the run's description (TOML)")->required();
  command->add_option("--data", options->data_file, "CSV with a header, or IDX; .gz is opened")
      ->required();
  command->add_option("--labels", options->label_file, "labels in a file of their own (IDX)");
  command->add_option("--label-column", options->label_column,
                      "CSV: the column with the label (default: the last)");
  command->add_option("--ignore", options->ignored_columns, "CSV: columns that are no features")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--boards", options->boards, "that share the rows")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--dirichlet", options->dirichlet_alpha,
                   "mix of classes differs by board: 0.5, or 0.1 for much; 0: not at all")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command->add_option("--codec", options->codecs, "one or more, both ways (all)");
  command->add_option("--tau", options->tau, "local steps between exchanges")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "exchanges of a board")
      ->check(CLI::Range(10, 1'000'000))
      ->capture_default_str();
  command->add_option("--seeds", options->seeds, "runs of each codec; the mean counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object a line instead of the table");
  return command;
}

int report(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "edge_server: %s\n", status.message().c_str());
  const bool usage = status.code() == Code::kInvalidArgument || status.code() == Code::kNotFound ||
                     status.code() == Code::kCorrupt;
  return usage ? kExitUsage : kExitFailure;
}

int print(const Result<std::string>& text) {
  if (!text) return report(text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

// The commands that change or show a fleet's folder.
struct FleetCommands {
  std::string folder = kFleetFolder;
  std::string name;
  CLI::App* enrol = nullptr;
  CLI::App* workers = nullptr;
  CLI::App* revoke = nullptr;

  void add_to(CLI::App& app) {
    enrol = app.add_subcommand("enrol", "print a one-time code by which a board joins the fleet");
    workers = app.add_subcommand("workers", "list who is in the fleet");
    revoke = app.add_subcommand("revoke", "take a worker off the fleet, also while it works");
    for (CLI::App* command : {enrol, revoke})
      command->add_option("name", name, "of the worker: letters, digits, '.', '_', '-'")
          ->required();
    for (CLI::App* command : {enrol, workers, revoke})
      command->add_option("--fleet", folder, "the fleet's folder")->capture_default_str();
  }
  // -1: another command is asked for.
  int run() const {
    if (*enrol) return print(enrol_worker(folder, name));
    if (*workers) return print(list_workers(folder));
    if (*revoke) return print(revoke_worker(folder, name));
    return -1;
  }
};

struct BackupCommands {
  ServerFolders folders{.fleet = kFleetFolder, .state = {}};
  std::string backup_folder;
  CLI::App* backup = nullptr;
  CLI::App* restore = nullptr;

  void add_to(CLI::App& app) {
    backup = app.add_subcommand("backup", "copy a fleet's keys and a run's newest snapshot");
    restore = app.add_subcommand("restore", "put a backup where a fleet and a run are to be");
    backup->add_option("to", backup_folder, "a new folder")->required();
    restore->add_option("from", backup_folder, "what backup made")->required();
    for (CLI::App* command : {backup, restore}) {
      command->add_option("--fleet", folders.fleet, "the fleet's folder")->capture_default_str();
      command->add_option("--state", folders.state, "the run's state folder");
    }
  }
  // -1: another command is asked for.
  int run() const {
    if (*backup) return print(back_up(folders, backup_folder));
    if (*restore)
      return print(
          restore_backup(backup_folder, folders, static_cast<int64_t>(std::time(nullptr))));
    return -1;
  }
};

void print(const CodecBench& bench, bool json) {
  std::fputs((json ? codec_bench_json(bench) : codec_bench_text(bench)).c_str(), stdout);
}

int run_gate(bool json) {
  const Result<CodecGate> gate = run_codec_gate();
  if (!gate) return report(gate.error());
  if (gate->bench.rates.empty()) {
    std::puts("skipped: this CPU has no kernel set with targets");
    return 0;
  }
  print(gate->bench, json);
  for (const std::string& fault : gate->faults) std::fprintf(stderr, "slow: %s\n", fault.c_str());
  return gate->faults.empty() ? 0 : kExitFailure;
}

int run_bench_codecs(const BenchCommand& bench) {
  if (bench.gate) return run_gate(bench.json);
  const Result<CodecBench> done = run_codec_bench(bench.options);
  if (!done) return report(done.error());
  print(*done, bench.json);
  return 0;
}

struct SimulateCommand {
  SimulateOptions oracle;
  ExperimentOptions experiment;
  bool example = false;
};

CLI::App* add_simulate(CLI::App& app, SimulateCommand* simulate) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "fleets under a virtual clock: an experiment's file, or --oracle for paces alone");
  ExperimentOptions* experiment = &simulate->experiment;
  command->add_option("experiment", experiment->file,
                      "what to run (TOML); --example prints one with comments");
  command->add_flag("--example", simulate->example, "print a commented experiment to start from");
  command->add_option("--out", experiment->out, "folder for the results; what is there is not run")
      ->capture_default_str();
  command->add_option("--jobs", experiment->jobs, "threads (as many as there are processors)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--trace", experiment->trace_file,
                      "file for what each worker of the first run did when (JSON lines)");
  command->add_option("--timeline", experiment->timeline_file, "the same as a picture (SVG)");
  SimulateOptions* options = &simulate->oracle;
  command->add_option("--oracle", options->oracle,
                      "no training: seconds of an iteration on each worker, 1,1,2,4, or 7x1,3");
  command->add_option("--pace", options->paces, "one or more; edge_server paces lists them (all)");
  command
      ->add_option("--jitter", options->jitter, "share by which an iteration is longer or shorter")
      ->capture_default_str();
  command->add_option("--slow-share", options->slow_share, "share of iterations that are slow")
      ->capture_default_str();
  command->add_option("--slow-factor", options->slow_factor, "how many times as long they take")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "of virtual time")->capture_default_str();
  command->add_option("--seed", options->seed, "of jitter and slow iterations")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object a line instead of the table");
  return command;
}

int run_simulate(const SimulateCommand& simulate) {
  const std::string& file = simulate.experiment.file;
  if (simulate.example) {
    std::fputs(kExampleExperiment, stdout);
    return 0;
  }
  if (file.empty() == simulate.oracle.oracle.empty())
    return report(fail(Code::kInvalidArgument,
                       "simulate needs either an experiment's file or --oracle TIMES; --example "
                       "prints a file to start from"));
  if (!file.empty()) return report(simulate_experiment(simulate.experiment));
  const Result<std::string> text = simulate_paces(simulate.oracle);
  if (!text) return report(text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

CLI::App* add_init(CLI::App& app, std::string* folder, InitOptions* options) {
  CLI::App* command = app.add_subcommand(
      "init", "make a fleet's keys; with --from, propose a run for a table, too");
  command->add_option("folder", *folder, "a new folder for the fleet")->capture_default_str();
  command->add_option("--from", options->sample_file,
                      "a board's CSV with column names and labels, or ARFF or LibSVM");
  command->add_option("--out", options->run_file, "with --from: file to write")
      ->capture_default_str();
  command->add_option("--label", options->label,
                      "the column with the label (the last one with few different values)");
  command->add_option("--ignore", options->ignored, "columns that are no features; a,b for several")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option(
          "--window", options->window,
          "rows of a sample; 1: single rows (windows for 8 rows a second or more with times)")
      ->check(CLI::Range(1, 65'536));
  command->add_option("--forecast", options->forecast,
                      "predict this column's value some rows ahead, instead of a label");
  command->add_option("--horizon", options->horizon, "with --forecast: how many rows ahead")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "boards that the run waits for")
      ->check(CLI::Range(1u, kWorkersMax))
      ->capture_default_str();
  command->add_flag("--force", options->force, "replace the file if it is there");
  return command;
}

// A fleet is made once; runs may follow it.
int run_init(const std::string& folder, const InitOptions& options) {
  if (options.sample_file.empty()) return print(init_fleet(folder));
  if (const int code = print(init_run(options)); code != 0) return code;
  return FleetFolder::exists(folder) ? 0 : print(init_fleet(folder));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("edge_server: serves a run to boards that train one model together", "edge_server");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string(kVersionText));
  app.require_subcommand(1);

  CLI::App* serve_command = app.add_subcommand("serve", "serve a run until it ends or Ctrl-C");
  ServeOptions serve;
  serve_command
      ->add_option("run", serve.run_file,
                   "the run's description (TOML); edge_server example prints one")
      ->required();
  serve_command->add_option("--listen", serve.listen,
                            "instead of the file's: 0.0.0.0:7433, ipc:///PATH");
  serve_command->add_option("--state", serve.state_folder,
                            "folder for snapshots and journals, instead of the file's");
  serve_command->add_option("--start", serve.start_file,
                            "a model (.safetensors) to start from, instead of the file's");
  serve_command
      ->add_option("--journal", serve.journal,
                   "round, payload (all is kept for replay) or off, instead of the file's")
      ->check(CLI::IsMember({"round", "payload", "off"}));
  serve_command->add_option("--fleet", serve.fleet_folder,
                            "the fleet's folder, instead of the file's (paceline-fleet)");
  serve_command->add_flag("--plain", serve.plain,
                          "no encryption, no identities: whoever reaches the port can join");
  serve_command->add_option("--seconds", serve.seconds, "end the run after so long");
  serve_command->add_option("--rounds", serve.rounds, "end the run after so many rounds");
  serve_command->add_option(
      "--model", serve.model_file,
      "where the model goes (default: model.safetensors in the state folder)");
  serve_command->add_option("--control", serve.control_file,
                            "a data file of the server's own to evaluate on (CSV, IDX)");
  serve_command->add_option("--control-labels", serve.control_label_file,
                            "its labels, if in a file of their own (IDX)");
  std::string level = "info";
  serve_command->add_option("--log", level, "debug, info, warning, error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();

  CLI::App* demo_command = app.add_subcommand("demo", "train on this machine with several workers");
  DemoOptions demo;
  demo_command->add_option("--workers", demo.workers, "how many")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  demo_command
      ->add_option("--speeds", demo.speeds,
                   "how many times --step-ms a step takes on each, repeated for more workers")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1000.0))
      ->allow_extra_args(false)
      ->capture_default_str();
  demo_command->add_option("--link", demo.link, "thin each worker's connection: 100mbit, 1mbit");
  demo_command->add_option("--pace", demo.pace, "compat, bsp, ssp:3; edge_server paces lists them")
      ->capture_default_str();
  demo_command->add_option("--freq", demo.freq, "trend, fixed:16; edge_server freqs lists them")
      ->capture_default_str();
  demo_command->add_option("--codec", demo.codec_up, "up; edge_server codecs lists them, or auto")
      ->capture_default_str();
  demo_command->add_option("--codec-down", demo.codec_down, "down, likewise")
      ->capture_default_str();
  demo_command->add_option("--rate", demo.rate, "learning rate")->capture_default_str();
  demo_command->add_option("--seconds", demo.seconds, "how long to train")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  demo_command->add_option("--rounds", demo.rounds, "or end after so many rounds");
  demo_command->add_option("--step-ms", demo.step_ms, "what a step takes on the fastest board")
      ->capture_default_str();
  demo_command->add_option("--out", demo.out, "folder for the results")->capture_default_str();
  demo_command->add_option("--seed", demo.seed, "of the model's start, shards and order of rows")
      ->capture_default_str();
  demo_command
      ->add_option("--data-folder", demo.data_folder, "Fashion-MNIST or MNIST, four IDX files")
      ->capture_default_str();
  demo_command->add_option("--worker", demo.worker_program, "the edge_worker program");
  demo_command->add_flag("--compare", demo.compare, "also run the classic way and print both");
  demo_command->add_flag("--json", demo.json, "print summary.json instead of the table");

  FleetCommands fleet;
  fleet.add_to(app);
  OnnxCommands onnx;
  onnx.add_to(app);
  BackupCommands backup;
  backup.add_to(app);
  SimulateCommand simulate;
  CLI::App* simulate_command = add_simulate(app, &simulate);
  BenchCommand bench;
  CLI::App* bench_group =
      app.add_subcommand("bench", "measure this machine, or codecs on your data");
  bench_group->require_subcommand(1);
  CLI::App* bench_command = add_bench_codecs(bench_group, &bench);
  CompressOptions compress;
  CLI::App* compress_command = add_bench_compress(bench_group, &compress);

  ReplayCommands replay;
  replay.add_to(app);

  InitOptions init;
  std::string init_folder = kFleetFolder;
  CLI::App* init_command = add_init(app, &init_folder, &init);
  CLI::App* example_command = app.add_subcommand("example", "print a commented run to start from");
  CLI::App* paces_command = app.add_subcommand("paces", "list who can wait for whom");
  CLI::App* freqs_command = app.add_subcommand("freqs", "list the frequency policies");
  CLI::App* codecs_command = app.add_subcommand("codecs", "list how numbers can travel");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  set_log_name("server");
  if (const Status kernels = init_kernels(); !kernels.ok()) return report(kernels);
  if (*serve_command) {
    set_log_level(std::string_view(level));
    return report(serve_run(serve));
  }
  if (*demo_command) return report(run_demo(demo));
  if (*simulate_command) return run_simulate(simulate);
  if (const auto said = replay.run()) {
    if (!*said) return report(said->error());
    std::fputs((*said)->text.c_str(), stdout);
    return (*said)->whole ? 0 : kExitFailure;
  }
  if (*init_command) return run_init(init_folder, init);
  if (const int code = fleet.run(); code >= 0) return code;
  if (const auto text = onnx.run()) return print(*text);
  if (const int code = backup.run(); code >= 0) return code;
  if (*bench_command) return run_bench_codecs(bench);
  if (*compress_command)
    return report(compare_codecs(compress, [](const std::string& lines) {
      std::fputs(lines.c_str(), stdout);
      std::fflush(stdout);
    }));
  if (*example_command) std::fputs(kExampleRun, stdout);
  if (*paces_command)
    for (const PaceInfo& info : paces()) std::printf("%-12s %s\n", info.name, info.description);
  if (*freqs_command)
    for (const FreqInfo& info : freqs()) std::printf("%-12s %s\n", info.name, info.description);
  if (*codecs_command)
    for (const CodecInfo& info : codecs())
      std::printf("%-8s %7.5g bits  %-12s %s\n", info.name, info.bits_per_element,
                  check_codec_down(info.id).ok() ? "up and down" : "up only", info.use);
  return 0;
}
