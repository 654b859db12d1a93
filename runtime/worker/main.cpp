// edge_worker: trains on this board's data, with a fleet.
#include <CLI/CLI.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/data/describe.h"
#include "runtime/data/reader.h"
#include "runtime/net/address.h"
#include "runtime/quant/dispatch.h"
#include "runtime/trust/credentials.h"
#include "runtime/worker/daemon.h"
#include "runtime/worker/join.h"
#include "runtime/worker/predict.h"

namespace {

using namespace paceline;

constexpr int kExitFailure = 1;  // the run could not go on: refused, or an internal error
constexpr int kExitUsage = 2;    // bad options or bad data: one line says which and how to mend it

constexpr const char* kExamples = R"(
Examples:
  edge_worker join desk.local 7ZQ4-...          take this board into a fleet; - reads the code
  edge_worker --data readings.csv              train with the fleet that was joined
  edge_worker 192.168.1.20:7433 --data train-images.gz --labels train-labels.gz --name greenhouse
  edge_worker desk.local --data readings.csv --state /var/lib/paceline
  edge_worker data readings.csv
  some_sensor | edge_worker desk.local --data -
  edge_worker predict --state /var/lib/paceline --data new.csv
  some_sensor | edge_worker predict --model model.safetensors --data - --json

The code is what edge_server enrol prints; it makes this board a key that never leaves it. A worker dials out to
one address and needs nothing else: model, settings and every decision come from
the server. It waits for a server that is not there yet, for ever. Ctrl-C sends what is not sent yet and
leaves. Exit codes: 0 the run ended or this worker left in order, 1 refused or failed, 2 bad options or data.)";

int report(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "edge_worker: %s\n", status.message().c_str());
  return status.code() == Code::kRefused || status.code() == Code::kUnsupported ? kExitFailure
                                                                                : kExitUsage;
}

std::string host_name() {
  char name[64] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "worker";
  return name;
}

Status describe_data(const std::string& file, const std::string& run_file, ReadOptions read) {
  DataSchema schema;
  if (!run_file.empty()) {
    PACELINE_ASSIGN(const Bytes text, read_file(run_file, kRunTextBytesMax));
    PACELINE_ASSIGN(schema,
                    parse_data_schema({reinterpret_cast<const char*>(text.data()), text.size()}));
    read.schema = &schema;
  }
  PACELINE_ASSIGN(const Dataset dataset, read_dataset(file, read));
  std::printf("%s\n", describe(dataset).c_str());
  return {};
}

struct PredictCommand {
  PredictOptions options;
  std::string state_folder;
};

CLI::App* add_predict(CLI::App& app, PredictCommand* predict) {
  CLI::App* command = app.add_subcommand(
      "predict",
      "what a trained model says of rows: label and probability, or number; needs no server");
  PredictOptions* options = &predict->options;
  CLI::Option* model = command->add_option("--model", options->model_file, "model.safetensors");
  command
      ->add_option("--state", predict->state_folder,
                   "a worker's or a server's state folder, for its model")
      ->excludes(model);
  command->add_option("--run", options->run_file,
                      "the run's description, if not the one in the model's file");
  command
      ->add_option("--data", options->data_file,
                   "CSV with a header, a JSON object a line, or LibSVM; - is standard input")
      ->required();
  command->add_option("--label-column", options->label_column,
                      "the column with the true label, if it has another name here");
  command->add_flag("--follow", options->follow, "wait at the end of the file for more rows");
  command->add_flag("--json", options->json, "one JSON object a line instead of CSV");
  command->add_option("--backend", options->backend, "compute: auto, reference, own, xnnpack-...")
      ->capture_default_str();
  return command;
}

int run_predict(PredictCommand predict) {
  PredictOptions& options = predict.options;
  if (!predict.state_folder.empty())
    options.model_file = predict.state_folder + "/" + kModelFileName;
  if (options.model_file.empty()) {
    std::fprintf(stderr, "edge_worker predict: give --model FILE or --state FOLDER\n");
    return kExitUsage;
  }
  const bool live = options.follow || options.data_file == "-";
  const auto print = [](std::FILE* stream, std::string_view line) {
    std::fwrite(line.data(), 1, line.size(), stream);
  };
  return report(predict_rows(options, {[&](std::string_view line) {
                                         print(stdout, line);
                                         if (live) std::fflush(stdout);
                                       },
                                       [&](std::string_view line) { print(stderr, line); }}));
}

// Where join put what it got: in the state folder if one is named and has it, else at home.
Result<std::optional<Credentials>> find_credentials(const std::string& state_folder) {
  if (!state_folder.empty()) {
    Result<std::optional<Credentials>> found = load_credentials(state_folder);
    if (!found || *found) return found;
  }
  const Result<std::string> home = default_credentials_folder();
  return home ? load_credentials(*home) : std::optional<Credentials>();
}

// Settles address, name and certificates. TLS for whatever leaves this machine.
Status choose_server(bool plain, bool is_named, WorkerDaemonOptions* options) {
  std::string address;
  if (!options->server.empty()) {
    PACELINE_ASSIGN(address, server_address(options->server));
    if (!plain) address = secure_unless_local(address);
  }
  std::optional<Credentials> credentials;
  if (!plain && (address.empty() || is_secure_address(address))) {
    PACELINE_ASSIGN(credentials, find_credentials(options->state.folder));
    if (!credentials)
      return fail(
          Code::kInvalidArgument,
          "this board has not joined a fleet: edge_server enrol NAME on the server prints a "
          "code, edge_worker join HOST CODE takes it. Or name a server and say --plain on a "
          "network that you trust");
    if (address.empty()) address = credentials->server;
    if (!is_named) options->name = credentials->name;
    options->tls = TlsOptions{.certificate = credentials->certificate,
                              .key = credentials->key,
                              .authority = credentials->authority,
                              .server_name = credentials->server_name};
  }
  if (address.empty())
    return fail(Code::kInvalidArgument, "give the server's address; --help shows how");
  options->server = address;
  return {};
}

int run_join(JoinOptions* join, const std::string& state_folder) {
  join->folder = state_folder;
  if (join->folder.empty()) {
    Result<std::string> home = default_credentials_folder();
    if (!home) return report(home.error());
    join->folder = *home;
  }
  if (join->code == "-") {
    char line[256];
    if (std::fgets(line, sizeof line, stdin) == nullptr) line[0] = '\0';
    join->code = line;
  }
  const Result<std::string> name = join_fleet(*join);
  if (!name) return report(name.error());
  std::printf("joined as %s; key and certificate are in %s\n", name->c_str(), join->folder.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("edge_worker: trains one model together with other boards; the data stays here",
               "edge_worker");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string(kVersionText));

  WorkerDaemonOptions options;
  std::string shard, link, level = "info";
  ReadOptions read;
  std::string described, described_by;
  bool stop_with_parent = false;

  app.add_option("server", options.server,
                 "the server: HOST, HOST:PORT or tcp://HOST:PORT (port 7433)");
  app.add_option(
      "--data", options.data.data_file,
      "CSV with a header, ARFF, LibSVM or IDX; .gz is opened; -: standard input while it "
      "trains, CSV or JSON lines");
  app.add_option("--ring-rows", options.data.ring_rows_max,
                 "with --data -: the newest rows that are held in memory")
      ->check(CLI::Range(1u, 1u << 24))
      ->capture_default_str();
  app.add_option("--labels", options.data.label_file, "labels in a file of their own (IDX)");
  app.add_option("--label-column", options.data.label_column,
                 "CSV: the column with the label (default: the last)");
  app.add_option("--ignore", options.data.ignored_columns,
                 "CSV: columns that are no features, such as a time; a,b for several")
      ->delimiter(',')
      ->allow_extra_args(false);
  options.name = host_name();
  CLI::Option* name_option = app.add_option(
      "--name", options.name, "what the server calls this board (default: its name in the fleet)");
  bool plain = false;
  app.add_flag("--plain", plain, "no encryption and no identity, for a network that you trust");
  app.add_option("--backend", options.backend, "compute: auto, reference, own, xnnpack-...")
      ->capture_default_str();
  app.add_option(
      "--state", options.state.folder,
      "folder for what is not sent yet, so that it outlives a restart, and for what join got");
  app.add_option("--state-mb-per-day", options.state.mb_per_day,
                 "write at most so much there; 0: only when it ends in order")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--epsilon-max", options.epsilon_max,
                 "send only what has noise (the run's [privacy]), and leave before it tells more")
      ->check(CLI::Range(1e-3, 1e9));
  app.add_option("--shard", shard,
                 "take a part of a common file: 2/4 or 2/4:dirichlet=0.5,seed=7 (counts from 0)");
  app.add_option("--link", link, "emulate a thin link: 1mbit, 64kbit, 10mbit/1mbit (down/up)");
  app.add_option("--step-ms", options.step_ms,
                 "emulate a slow board: a step takes at least so long")
      ->check(CLI::Range(0.0, 60'000.0));
  app.add_flag("--stop-with-parent", stop_with_parent,
               "leave when the process that started this one ends");
  app.add_option("--log", level, "debug, info, warning, error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();

  CLI::App* data = app.add_subcommand(
      "data", "describe a data file: rows, features, classes, or the first fault");
  data->add_option("file", described, "the file")->required();
  data->add_option("--labels", read.label_file, "labels in a file of their own (IDX)");
  data->add_option("--label-column", read.label_column, "CSV: the column with the label");
  data->add_option("--run", described_by,
                   "as this run reads it: its columns, rules for rows, and windows");
  data->add_option("--ignore", read.ignored_columns,
                   "CSV: columns that are no features, such as a time; a,b for several")
      ->delimiter(',')
      ->allow_extra_args(false);

  PredictCommand predict;
  CLI::App* predict_command = add_predict(app, &predict);
  JoinOptions join_options;
  CLI::App* join = app.add_subcommand("join", "take this board into a fleet by a one-time code");
  join->add_option("server", join_options.server, "the server: HOST or HOST:PORT (port 7434)")
      ->required();
  join->add_option("code", join_options.code, "what edge_server enrol printed; - reads a line")
      ->required();
  join->add_option("--state", options.state.folder,
                   "folder for key and certificate (default: .paceline in the home folder)");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }

  set_log_level(level);
  if (const Status kernels = init_kernels(); !kernels.ok()) return report(kernels);
  if (stop_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (*data) {
    return report(describe_data(described, described_by, read));
  }
  if (*predict_command) return run_predict(std::move(predict));
  if (*join) return run_join(&join_options, options.state.folder);
  if (options.data.data_file.empty()) {
    std::fprintf(stderr, "edge_worker: give --data FILE; edge_worker --help shows how\n");
    return kExitUsage;
  }
  const Status chosen = choose_server(plain, name_option->count() > 0, &options);
  if (!chosen.ok()) return report(chosen);
  if (!shard.empty()) {
    Result<ShardOptions> parsed = parse_shard(shard);
    if (!parsed) return report(parsed.error());
    options.data.shard = *parsed;
    options.data.has_shard = true;
  }
  if (!link.empty()) {
    Result<LinkLimit> parsed = parse_link(link);
    if (!parsed) return report(parsed.error());
    options.link = *parsed;
  }
  const std::string log_name = "worker " + options.name;
  set_log_name(log_name.c_str());
  return report(run_worker(options));
}
