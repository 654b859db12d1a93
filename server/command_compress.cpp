#include "server/command_compress.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/base/files.h"
#include "runtime/data/reader.h"
#include "server/run_config.h"
#include "simulate/codec_rounds.h"

namespace paceline {

namespace {

constexpr uint64_t kRunFileBytesMax = uint64_t{1} << 20;

struct Row {
  CodecPair codecs;
  std::vector<double> accuracies;  // of each seed
  double bytes_up = 0, bytes_down = 0;
  std::string diverged;  // why there is nothing to compare
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The last rows are measured, as a worker holds them out; the boards share the others.
Result<RoundsTask> make_task(const CompressOptions& options, RunSpec* spec) {
  PACELINE_ASSIGN(const Bytes bytes, read_file(options.run_file, kRunFileBytesMax));
  RoundsTask task;
  task.run.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PACELINE_ASSIGN(const ServeConfig config, parse_serve_config(task.run, options.run_file));
  *spec = config.core.run;
  if (spec->model.class_count == 0)
    return fail(Code::kInvalidArgument, "%s: its model gives numbers; bench compress takes classes",
                options.run_file.c_str());
  ReadOptions read;
  if (config.schema.reads_rows()) read.schema = &config.schema;
  read.label_file = options.label_file;
  read.label_column = options.label_column;
  read.ignored_columns = options.ignored_columns;
  read.class_count = spec->model.class_count;
  PACELINE_ASSIGN(Dataset all, read_dataset(options.data_file, read));
  if (all.feature_count() != spec->model.input_features())
    return fail(Code::kInvalidArgument, "%s: rows have %zu values, the model takes %llu",
                options.data_file.c_str(), all.feature_count(),
                static_cast<unsigned long long>(spec->model.input_features()));
  all.set_scaling(config.schema.scale, config.schema.offset);
  HoldOut split = split_hold_out(all);
  if (split.held_out.empty())
    return fail(Code::kInvalidArgument,
                "%s: %zu rows are too few to keep some back for measuring; 40 will do",
                options.data_file.c_str(), all.row_count());
  task.measured = all;
  task.measured.keep(split.held_out);
  all.keep(split.training);
  for (uint32_t i = 0; i < options.boards; ++i) {
    ShardOptions shard;
    shard.index = i;
    shard.count = options.boards;
    shard.dirichlet_alpha = options.dirichlet_alpha;
    PACELINE_ASSIGN(const std::vector<uint32_t> rows,
                    shard_rows(all.labels(), all.class_count(), shard));
    if (rows.empty())
      return fail(Code::kInvalidArgument, "board %u of %u has no rows; take fewer boards", i + 1,
                  options.boards);
    task.boards.push_back(board_of(all, rows));
  }
  return task;
}

// raw32 first. A codec that may not go down is met by q8.
Result<std::vector<CodecPair>> pairs_of(const std::vector<std::string>& names) {
  std::vector<CodecPair> pairs = {{CodecId::kRaw32, CodecId::kRaw32}};
  const auto add = [&](CodecId codec) {
    if (codec == CodecId::kRaw32) return;
    pairs.push_back({codec, check_codec_down(codec).ok() ? codec : CodecId::kQ8});
  };
  if (names.empty())
    for (const CodecInfo& info : codecs()) add(info.id);
  for (const std::string& name : names) {
    PACELINE_ASSIGN(const CodecId codec, codec_by_name(name));
    add(codec);
  }
  return pairs;
}

std::string pair_name(CodecPair codecs) {
  return format_text("%s / %s", codec_info(codecs.up).name, codec_info(codecs.down).name);
}

Row measure(const RoundsTask& task, const RunSpec& spec, const CompressOptions& options,
            CodecPair codecs) {
  Row row;
  row.codecs = codecs;
  for (uint32_t seed = 1; seed <= options.seeds; ++seed) {
    RoundsOptions rounds;
    rounds.up = codecs.up;
    rounds.down = codecs.down;
    rounds.tau = options.tau;
    rounds.rounds = options.rounds;
    rounds.rate = spec.training.rate;
    rounds.momentum = spec.training.momentum;
    rounds.seed = seed;
    const Result<RoundsResult> result = run_rounds(task, rounds);
    if (!result) {
      row.diverged = result.error().message();
      break;
    }
    row.accuracies.push_back(result->accuracy);
    row.bytes_up = result->bytes_up;
    row.bytes_down = result->bytes_down;
  }
  return row;
}

// Points lost against raw32, seed by seed: their mean, and how far the seeds spread.
std::pair<double, double> lost_points(const Row& row, const Row& exact) {
  std::vector<double> losses;
  for (size_t i = 0; i < row.accuracies.size(); ++i)
    losses.push_back(100 * (exact.accuracies[i] - row.accuracies[i]));
  const auto [least, most] = std::ranges::minmax(losses);
  return {mean(losses), most - least};
}

std::string table_line(const Row& row, const Row& exact) {
  const std::string name = pair_name(row.codecs);
  if (!row.diverged.empty())
    return format_text("%-15s diverges: %s\n", name.c_str(), row.diverged.c_str());
  const auto [lost, spread] = lost_points(row, exact);
  const double bytes = row.bytes_up + row.bytes_down;
  return format_text("%-15s %8.2f %% %+8.2f %8.2f %12.1f %12.1f %8.1fx\n", name.c_str(),
                     100 * mean(row.accuracies), 0.0 - lost, spread, row.bytes_up / 1e3,
                     row.bytes_down / 1e3, (exact.bytes_up + exact.bytes_down) / bytes);
}

std::string json_line(const Row& row, const Row& exact, const CompressOptions& options) {
  nlohmann::ordered_json json = {{"codec_up", codec_info(row.codecs.up).name},
                                 {"codec_down", codec_info(row.codecs.down).name},
                                 {"boards", options.boards},
                                 {"tau", options.tau},
                                 {"rounds", options.rounds}};
  if (!row.diverged.empty()) {
    json["diverged"] = row.diverged;
    return json.dump() + "\n";
  }
  const auto [lost, spread] = lost_points(row, exact);
  json["accuracy"] = mean(row.accuracies);
  json["accuracies"] = row.accuracies;
  json["points_lost"] = lost;
  json["points_lost_spread"] = spread;
  json["bytes_up"] = row.bytes_up;
  json["bytes_down"] = row.bytes_down;
  return json.dump() + "\n";
}

}  // namespace

Status compare_codecs(const CompressOptions& options, const LinePrinter& print) {
  RunSpec spec;
  PACELINE_ASSIGN(const std::vector<CodecPair> pairs, pairs_of(options.codecs));
  PACELINE_ASSIGN(const RoundsTask task, make_task(options, &spec));
  if (!options.json)
    print(format_text(
        "%u boards, %llu exchanges each after %u steps, %zu rows measured, mean of %u seeds\n"
        "%-15s %10s %8s %8s %12s %12s %9s\n",
        options.boards, static_cast<unsigned long long>(options.rounds), options.tau,
        task.measured.row_count(), options.seeds, "up / down", "accuracy", "points", "spread",
        "kB up", "kB down", "smaller"));
  Row exact;
  for (const CodecPair codecs : pairs) {
    const Row row = measure(task, spec, options, codecs);
    if (codecs == pairs.front()) {
      if (!row.diverged.empty())
        return fail(Code::kInvalidArgument,
                    "without any codec the run diverges: %s; lower [training] rate",
                    row.diverged.c_str());
      exact = row;
    }
    print(options.json ? json_line(row, exact, options) : table_line(row, exact));
  }
  return {};
}

}  // namespace paceline
