#include "server/init_sparse.h"

#include <algorithm>

#include "runtime/base/json_text.h"
#include "runtime/data/describe.h"
#include "runtime/train/training.h"

namespace paceline {

namespace {

constexpr size_t kClassesProposedMax = 256;
// 24 MB as float32, of which a worker holds some seven.
constexpr uint64_t kParametersProposedMax = 6'000'000;
constexpr uint32_t kHashBitsMin = 10;
constexpr size_t kPasses = 3, kBatch = 32, kStepsPerExchange = 16, kRoundsMin = 50;

struct SparseChoice {
  SparseRules rules;
  size_t longest = 0;  // values of a row of the sample
  uint32_t index_max = 0;
  std::vector<std::string> classes;
};

// Those that a row has: numbers that nobody uses are no classes here.
std::vector<std::string> classes_of(const Dataset& dataset) {
  std::vector<bool> used(dataset.class_count());
  for (const int32_t label : dataset.labels()) used[static_cast<size_t>(label)] = true;
  std::vector<std::string> classes;
  for (size_t i = 0; i < used.size() && i < dataset.class_names.size(); ++i)
    if (used[i]) classes.push_back(dataset.class_names[i]);
  return classes;
}

// Other boards' rows may be longer than the sample's.
uint32_t with_room(size_t longest) {
  const size_t room = (longest + longest / 4 + 7) / 8 * 8;
  return static_cast<uint32_t>(std::clamp<size_t>(room, 8, kNonZerosMax));
}

Result<SparseChoice> choose(const Dataset& dataset, const InitOptions& options) {
  if (!options.label.empty() || !options.ignored.empty() || !options.forecast.empty())
    return fail(Code::kInvalidArgument,
                "sparse rows (LibSVM) have no named columns; leave --label, --ignore and "
                "--forecast out");
  SparseChoice choice;
  choice.classes = classes_of(dataset);
  if (choice.classes.size() < 2 || choice.classes.size() > kClassesProposedMax)
    return fail(Code::kInvalidArgument,
                "the labels have %zu different values; init proposes runs for 2 to %zu classes",
                choice.classes.size(), kClassesProposedMax);
  const SparseRows& rows = *dataset.sparse_rows();
  for (size_t i = 0; i < rows.row_count(); ++i) {
    const std::span<const SparseEntry> row = rows.row(i);
    choice.longest = std::max(choice.longest, row.size());
    if (!row.empty()) choice.index_max = std::max(choice.index_max, row.back().place + 1);
  }
  choice.rules.non_zeros_max = with_room(choice.longest);
  const uint64_t fits = kParametersProposedMax / choice.classes.size();
  choice.rules.feature_count = std::max(choice.index_max, 1u);
  if (choice.rules.feature_count <= std::min<uint64_t>(fits, kSparseFeaturesMax)) return choice;
  choice.rules.hash_bits = kHashBitsMin;
  while ((uint64_t{2} << choice.rules.hash_bits) <= fits) ++choice.rules.hash_bits;
  choice.rules.feature_count = 1u << choice.rules.hash_bits;
  return choice;
}

std::string data_text(const SparseChoice& choice) {
  std::string text = "[data]\n";
  if (choice.rules.hash_bits > 0)
    text += format_text(
        "hash_bits = %u              # indices up to %u are hashed to 2^%u places, so that the "
        "model fits a board\n",
        choice.rules.hash_bits, choice.index_max, choice.rules.hash_bits);
  else
    text += format_text("features = %u             # indices 1 to %u\n", choice.rules.feature_count,
                        choice.rules.feature_count);
  text += format_text(
      "non_zeros = %u             # the most that a row may have; in the sample it is %zu\n"
      "bad_rows = \"error\"        # a row that can't be read: \"error\" or \"skip\"\nclasses = [",
      choice.rules.non_zeros_max, choice.longest);
  for (size_t i = 0; i < choice.classes.size(); ++i)
    text += (i == 0 ? "" : ", ") + json_quoted(choice.classes[i]);
  return text + "]\n\n";
}

std::string net_text(const SparseChoice& choice) {
  return format_text(
      "[model]\ninput = [2, %u]            # places and values of what is not 0\nclasses = %zu\n\n"
      "[[layer]]\ntype = \"sparse_dense\"\nentries = %u\nunits = %zu\n\n"
      "[training]\n"
      "batch = %zu                # rows of one local step\n"
      "optimizer = \"adagrad\"      # or \"sgd\" with momentum = 0: a step moves the features of "
      "its "
      "rows, no others\n"
      "rate = 0.1\nseed = 1\n\n",
      choice.rules.non_zeros_max, choice.classes.size(), choice.rules.feature_count,
      choice.classes.size(), kBatch);
}

size_t rounds_of(size_t row_count) {
  return std::max(kRoundsMin, row_count * 9 / 10 * kPasses / (kBatch * kStepsPerExchange) + 1);
}

}  // namespace

Result<RunProposal> propose_sparse_run(const Dataset& dataset, const InitOptions& options) {
  PACELINE_ASSIGN(const SparseChoice choice, choose(dataset, options));
  RunProposal proposal;
  proposal.toml =
      format_text(
          "# A run of Paceline, proposed from %zu rows. Serve it:  edge_server serve %s\n"
          "# Workers need nothing of this file: they get it from the server.\n\n",
          dataset.row_count(), options.run_file.c_str()) +
      data_text(choice) + net_text(choice) +
      format_text(
          "[communication]\npace = \"compat\"           # edge_server paces lists them\n"
          "freq = \"fixed:%zu\"         # local steps between exchanges\n"
          "codec_up = \"tk5\"          # few weights change between two exchanges: only they "
          "travel\n"
          "codec_down = \"tk5\"\n\n"
          "[server]\nlisten = \"0.0.0.0:7433\"\n"
          "state = \"paceline-state\"  # checkpoints and the model\n"
          "min_workers = %u           # nobody trains before so many are there\n"
          "rounds = %zu               # %zu passes over as many rows as the sample has; 0: until "
          "Ctrl-C\n",
          kStepsPerExchange, options.workers, rounds_of(dataset.row_count()), kPasses);
  PACELINE_ASSIGN(const RunSpec run, parse_run(proposal.toml));
  proposal.summary = format_text(
      "rows      %s: %s\n"
      "net       %u features, linear, %zu outputs: %llu parameters\n",
      options.sample_file.c_str(), describe(dataset).c_str(), choice.rules.feature_count,
      choice.classes.size(), static_cast<unsigned long long>(run.model.layout.parameter_count()));
  return proposal;
}

}  // namespace paceline
