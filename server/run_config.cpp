#include "server/run_config.h"

#include "runtime/base/config.h"
#include "runtime/base/limits.h"
#include "runtime/net/address.h"

namespace paceline {

const char* const kExampleRun = R"(# A run of Paceline. Start it with:  edge_server serve run.toml
# Workers need nothing of this file: they get it from the server.

[model]
input = [28, 28]          # shape of one row: [features], [height, width] or [channels, height, width]
classes = 10

[[layer]]
type = "flatten"
[[layer]]
type = "dense"
units = 128
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 10                # as many as classes; the loss is softmax cross entropy

[training]
batch = 32                # rows of one local step
rate = 0.02
momentum = 0.9
seed = 1

[data]
scale = 0.00392156862745098   # x = value * scale + offset, on every worker
offset = 0.0

# [privacy]               # noise on every board's updates: docs/privacy.md, before you trust it
# clip = 0.05             # the longest update, in weight units
# noise = 0.8             # sd on each of its values, in clips
# epsilon_max = 50        # a board that has spent it leaves

[communication]
pace = "compat"           # bsp, asp, ssp:3, ...: edge_server paces lists them
freq = "trend"            # fixed:16, agreement, ...: edge_server freqs lists them
codec_up = "s1r"          # edge_server codecs lists them; auto: chosen by the measured link
codec_down = "s1r"        # the same; some only go up
rate_end = 0.1            # the rate falls to this share over the second half of a planned run

[server]
listen = "0.0.0.0:7433"
fleet = "paceline-fleet"  # who may join: edge_server init makes it, edge_server enrol fills it
# start = "model.safetensors"   # weights of an earlier run or an import to begin with
state = "paceline-state"  # snapshots and journals; the run goes on from here after a restart
journal = "round"         # nothing acknowledged is lost; payload: all is kept for replay; off: a
                          # crash takes the run back to the newest snapshot
disk_full = "wait"        # take no updates until there is space; go_on: train on, without a journal
checkpoint_ms = 60000     # a snapshot at most so often
min_workers = 1
heartbeat_ms = 1000       # three missed ones: the worker is gone
exchange_deadline_ms = 30000
aggregate = "mean"        # median, trimmed:1, krum:1, clip: where one worker may lie (docs/reliability.md)
seconds = 0               # of the planned run; 0: until it is stopped
rounds = 0
)";

namespace {

Status read_codec(const std::string& text, CodecId* codec, bool* automatic) {
  *automatic = text == "auto";
  if (*automatic) return {};
  Result<CodecId> named = codec_by_name(text);
  if (!named)
    return fail(named.error().code(), "%s; or auto, chosen by the link",
                named.error().message().c_str());
  *codec = *named;
  return {};
}

Status read_journal(ConfigSection* server, ServeConfig* serve) {
  std::string journal = "round", disk_full = "wait";
  server->read("journal", &journal);
  server->read("disk_full", &disk_full);
  Result<Recording> named = journal_by_name(journal);
  if (!named)
    return fail(named.error().code(), "%s: %s", server->place_of("journal").c_str(),
                named.error().message().c_str());
  serve->journal = *named;
  if (disk_full != "wait" && disk_full != "go_on")
    return fail(Code::kInvalidArgument, "%s: disk_full is 'wait' or 'go_on', not '%s'",
                server->place_of("disk_full").c_str(), disk_full.c_str());
  serve->waits_for_disk = disk_full == "wait";
  return {};
}

}  // namespace

Result<Recording> journal_by_name(std::string_view name) {
  if (name == "round") return Recording::kRecovery;
  if (name == "payload") return Recording::kPayloads;
  if (name == "off") return Recording::kOff;
  return fail(Code::kInvalidArgument, "journal is 'round', 'payload' or 'off', not '%s'",
              std::string(name).c_str());
}

Result<ServeConfig> parse_serve_config(std::string_view text, const std::string& source) {
  if (text.size() > kRunTextBytesMax)
    return fail(Code::kInvalidArgument, "%s: %zu bytes; a run's description has at most %zu",
                source.c_str(), text.size(), kRunTextBytesMax);
  ServeConfig serve;
  serve.core.run_text = std::string(text);
  Result<RunSpec> run = parse_run(text);
  if (!run)
    return fail(run.error().code(), "%s: %s", source.c_str(), run.error().message().c_str());
  serve.core.run = std::move(*run);
  Result<DataSchema> schema = parse_data_schema(text);
  if (schema) {
    const ModelSpec& model = serve.core.run.model;
    const Status fits = schema->check_model(model.input_features(), model.class_count,
                                            model.output_count, model.sparse_entries());
    if (!fits.ok()) schema = fail(fits);
  }
  if (!schema)
    return fail(schema.error().code(), "%s: %s", source.c_str(), schema.error().message().c_str());
  serve.schema = std::move(*schema);
  serve.core.columns_by_name = serve.schema.reads_rows();

  PACELINE_ASSIGN(const Config config, Config::parse(text, source));
  PACELINE_TRY(
      config.only({"model", "layer", "training", "privacy", "data", "communication", "server"}));
  ServerOptions& core = serve.core;
  std::string codec_up = codec_info(core.codec_up).name,
              codec_down = codec_info(core.codec_down).name;
  ConfigSection communication = config.section("communication");
  communication.read("pace", &core.pace);
  communication.read("freq", &core.freq);
  communication.read("codec_up", &codec_up);
  communication.read("codec_down", &codec_down);
  communication.read("rate_end", &core.rate_end, 0, 1);
  communication.read("warmup_publications", &core.warmup_publications, 0, 1'000'000);
  PACELINE_TRY(communication.finish());
  PACELINE_TRY(read_codec(codec_up, &core.codec_up, &core.codec_up_auto));
  PACELINE_TRY(read_codec(codec_down, &core.codec_down, &core.codec_down_auto));
  const OptimizerKind optimizer = core.run.training.optimizer.kind;
  if (is_adaptive(optimizer) && !core.codec_up_auto && core.codec_up == CodecId::kS1)
    return fail(Code::kInvalidArgument,
                "%s: codec_up s1 moves all weights of a block alike, which undoes the scale that "
                "optimizer %s gives each; take s1r or q8, or optimizer sgd",
                communication.place_of("codec_up").c_str(),
                std::string(optimizer_names()[static_cast<size_t>(optimizer)]).c_str());

  std::string listen = serve.listen;
  ConfigSection server = config.section("server");
  server.read("listen", &listen);
  server.read("fleet", &serve.fleet_folder);
  server.read("state", &serve.state_folder);
  server.read("start", &serve.start_file);
  PACELINE_TRY(read_journal(&server, &serve));
  uint32_t checkpoint_ms = serve.snapshot_ms();
  server.read("checkpoint_ms", &checkpoint_ms, 0, 3'600'000);
  if (checkpoint_ms != serve.snapshot_ms()) serve.checkpoint_ms = checkpoint_ms;
  server.read("min_workers", &core.min_workers, 1, kWorkersMax);
  server.read("heartbeat_ms", &core.heartbeat_ms, 20, 600'000);
  server.read("exchange_deadline_ms", &core.exchange_deadline_ms, 100, 3'600'000);
  server.read("aggregate", &core.aggregate);
  server.read("seconds", &serve.seconds, 0, 1e9);
  server.read("rounds", &serve.rounds, 0, INT64_MAX);
  PACELINE_TRY(server.finish());
  PACELINE_ASSIGN(serve.listen, server_address(listen));
  return serve;
}

}  // namespace paceline
