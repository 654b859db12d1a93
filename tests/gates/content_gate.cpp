// What do codecs cost in accuracy, at equal steps? Paired seeds: both sides of a comparison have
// the same start, shards and batches. A limit holds when the upper end of the one-sided 95 %
// interval of the mean loss is below it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "runtime/base/check.h"
#include "runtime/data/reader.h"
#include "simulate/codec_rounds.h"
#include "tests/gates/fashion_fleet.h"

using namespace paceline;

namespace {

constexpr uint64_t kSeeds[] = {1, 2, 3, 4, 5};
constexpr double kStudentT = 2.132;  // one-sided 95 %, four degrees of freedom

std::string dense_net(unsigned units) {
  return format_text(
      "[model]\ninput = [28, 28]\nclasses = 10\n[[layer]]\ntype = \"flatten\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = 10\n",
      units);
}
constexpr const char* kCnn =
    "[model]\ninput = [28, 28]\nclasses = 10\n"
    "[[layer]]\ntype = \"conv2d\"\nfilters = 8\nkernel = 5\n[[layer]]\ntype = \"relu\"\n"
    "[[layer]]\ntype = \"maxpool2d\"\nkernel = 2\n"
    "[[layer]]\ntype = \"conv2d\"\nfilters = 16\nkernel = 5\n[[layer]]\ntype = \"relu\"\n"
    "[[layer]]\ntype = \"maxpool2d\"\nkernel = 2\n[[layer]]\ntype = \"flatten\"\n"
    "[[layer]]\ntype = \"dense\"\nunits = 64\n[[layer]]\ntype = \"relu\"\n"
    "[[layer]]\ntype = \"dense\"\nunits = 10\n";

enum class Split { kIid, kTwoClasses };

// The first 55,000 training images on `board_count` boards; accuracy is of the last 5,000.
RoundsTask fashion_task(const std::string& model, size_t board_count, Split split,
                        unsigned batch = 32) {
  const Dataset& all = test::fashion_training_set();
  RoundsTask task;
  task.run =
      model + format_text("[training]\nbatch = %u\n[data]\nscale = %.17g\n", batch, 1.0 / 255);
  std::vector<std::vector<uint32_t>> rows(board_count);
  for (uint32_t row = 0; row < test::kFashionTrainingRows; ++row) {
    const auto label = static_cast<size_t>(all.labels()[row]);
    rows[split == Split::kIid ? row % board_count : label / 2 % board_count].push_back(row);
  }
  for (const auto& own : rows) task.boards.push_back(board_of(all, own));
  task.measured = test::fashion_control_set();
  return task;
}

struct Losses {
  double mean = 0, upper = 0;
};

// Points that each run of `options` loses against the exact run of the same seed.
Losses lost(const char* what, const RoundsTask& task, RoundsOptions options,
            std::span<const RoundsResult> exact) {
  std::vector<double> losses;
  for (size_t i = 0; i < std::size(kSeeds); ++i) {
    options.seed = kSeeds[i];
    const RoundsResult coded = run_rounds(task, options).value();
    losses.push_back(100 * (exact[i].accuracy - coded.accuracy));
  }
  const double count = static_cast<double>(losses.size());
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / count;
  double spread = 0;
  for (const double loss : losses) spread += (loss - mean) * (loss - mean) / (count - 1);
  spread = std::sqrt(spread);
  const Losses result{mean, mean + kStudentT * spread / std::sqrt(count)};
  std::printf("%-34s loses %+6.2f points (", what, mean);
  for (const double loss : losses) std::printf(" %+.2f", loss);
  std::printf(" ), at most %+.2f\n", result.upper);
  std::fflush(stdout);
  return result;
}

std::vector<RoundsResult> exact_runs(const char* what, const RoundsTask& task,
                                     RoundsOptions options) {
  options.up = options.down = CodecId::kRaw32;
  options.feedback = true;
  std::vector<RoundsResult> results;
  for (const uint64_t seed : kSeeds) {
    options.seed = seed;
    results.push_back(run_rounds(task, options).value());
  }
  std::printf("%-34s reaches", what);
  for (const RoundsResult& result : results) std::printf(" %.4f", result.accuracy);
  std::printf("\n");
  std::fflush(stdout);
  return results;
}

RoundsOptions coded(RoundsOptions options, CodecId up, CodecId down) {
  options.up = up;
  options.down = down;
  return options;
}

bool skipped() {
  if (test::fashion_data_is_there()) return false;
  std::printf("skipped: no data (Debian's dataset-fashion-mnist)\n");
  return true;
}

void check_codecs(const std::string& model, const char* name, Split split) {
  const RoundsTask task = fashion_task(model, 5, split);
  const std::string where =
      format_text("%s %s", name, split == Split::kTwoClasses ? "2 classes" : "iid");
  RoundsOptions options;
  options.rounds = 700;
  const auto exact = exact_runs((where + " raw32").c_str(), task, options);
  const auto check = [&](const char* what, CodecId up, double limit) {
    CHECK(lost((where + what).c_str(), task, coded(options, up, CodecId::kQ8), exact).upper <=
          limit);
  };
  check(" q8 up, q8 down", CodecId::kQ8, 0.5);
  check(" s1r up, q8 down", CodecId::kS1r, 1.0);
  check(" s1 up, q8 down", CodecId::kS1, 2.5);
  // What TK sends of a place comes a hundred rounds late: it wants a lower rate and a longer run.
  options.rate = 0.02;
  options.rounds = 1720;
  const auto slower = exact_runs((where + " raw32, rate .02").c_str(), task, options);
  options.warmup_rounds = 20;
  const Losses losses = lost((where + " tk1 up, q8 down").c_str(), task,
                             coded(options, CodecId::kTk1, CodecId::kQ8), slower);
  CHECK(losses.upper <= 1.0);
}

// People's windows of 64 x 6 as float32: acceleration in g, rotation in rad/s.
Dataset har_windows(const std::vector<std::string>& stems) {
  std::vector<float> values;
  std::vector<int32_t> labels;
  for (const std::string& stem : stems) {
    ReadOptions options;
    options.label_file = stem + "-y.idx1-ubyte.gz";
    Result<Dataset> read = read_dataset(stem + "-x.idx3-short.gz", options);
    PACELINE_CHECK(read.has_value());
    read->set_scaling(0.001f, 0);
    std::vector<uint32_t> rows(read->row_count());
    std::iota(rows.begin(), rows.end(), 0u);
    std::vector<float> features(rows.size() * read->feature_count());
    std::vector<int32_t> own(rows.size());
    read->gather(rows, features, own);
    for (size_t i = 0; i < features.size(); ++i)
      values.push_back(i % 6 < 3 ? features[i] / 9.80665f : features[i]);
    labels.insert(labels.end(), own.begin(), own.end());
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Dataset(ElementType::kFloat32, std::move(bytes), {384}, std::move(labels), 5);
}

// 36 devices of 18 people on eight boards; accuracy is of their own test windows and those of five
// other people.
RoundsTask har_task(const std::string& folder) {
  RoundsTask task;
  task.run =
      "[training]\nbatch = 16\n[model]\ninput = [384]\nclasses = 5\n[[layer]]\ntype = "
      "\"dense\"\nunits = 64\n"
      "[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"dense\"\nunits = 5\n";
  std::vector<std::vector<std::string>> training(8);
  std::vector<std::string> measured;
  for (int person = 1; person <= 23; ++person) {
    for (const int device : {0, 1}) {
      const std::string stem =
          folder + format_text("/har-sp-sw/shards/s%02d-%s/", person, device == 0 ? "sp" : "sw");
      measured.push_back(stem + "test");
      if (person > 18)
        measured.push_back(stem + "train");
      else
        training[static_cast<size_t>(person * 2 + device) % 8].push_back(stem + "train");
    }
  }
  for (const auto& stems : training) {
    const Dataset own = har_windows(stems);
    std::vector<uint32_t> rows(own.row_count());
    std::iota(rows.begin(), rows.end(), 0u);
    task.boards.push_back(board_of(own, rows));
  }
  task.measured = har_windows(measured);
  return task;
}

}  // namespace

TEST_SUITE("gates/content") {
  TEST_CASE("codecs keep the accuracy of raw32 on a dense net") {
    if (skipped()) return;
    check_codecs(dense_net(128), "mlp", Split::kIid);
    check_codecs(dense_net(128), "mlp", Split::kTwoClasses);
  }

  TEST_CASE("codecs keep the accuracy of raw32 on a convolutional net") {
    if (skipped()) return;
    check_codecs(kCnn, "cnn", Split::kIid);
    check_codecs(kCnn, "cnn", Split::kTwoClasses);
  }

  TEST_CASE("signs without their residual lose ten points when no board has all classes") {
    if (skipped()) return;
    // 512 units, so that the last layer is wide, too: narrow ones ride as Q8.
    const RoundsTask task = fashion_task(dense_net(512), 5, Split::kTwoClasses);
    RoundsOptions options;
    options.rounds = 860;
    const auto exact = exact_runs("mlp 512 2 classes raw32", task, options);
    options = coded(options, CodecId::kS1, CodecId::kQ8);
    CHECK(lost("mlp 512 2 classes s1", task, options, exact).upper <= 2.5);
    options.feedback = false;
    CHECK(lost("mlp 512 2 classes s1, no residual", task, options, exact).mean >= 10);
  }

  TEST_CASE("with momentum and local steps one bit and 5 % go both ways") {
    if (skipped()) return;
    const RoundsTask task = fashion_task(dense_net(128), 5, Split::kIid);
    RoundsOptions options;
    options.tau = 16;
    options.rounds = 150;
    options.rate = 0.02;
    const auto exact = exact_runs("mlp 16 steps raw32", task, options);
    for (const auto& [name, codec] : {std::pair{"mlp 16 steps s1r both ways", CodecId::kS1r},
                                      {"mlp 16 steps tk5 both ways", CodecId::kTk5}})
      CHECK(lost(name, task, coded(options, codec, codec), exact).upper <= 1.0);
  }

  TEST_CASE("people's movements: one bit with its residual loses nothing") {
    const char* folder = std::getenv("PACELINE_TEST_DATA");
    if (folder == nullptr) {
      std::printf("skipped: no data (PACELINE_TEST_DATA)\n");
      return;
    }
    const RoundsTask task = har_task(folder);
    RoundsOptions options;
    options.rounds = 1500;
    options.rate = 0.2;
    options.rate_end = 1;
    options.momentum = 0;
    const auto exact = exact_runs("har raw32", task, options);
    RoundsOptions one_bit = coded(options, CodecId::kS1, CodecId::kRaw32);
    CHECK(lost("har s1", task, one_bit, exact).upper <= 1.5);
    // Scales for each 256 values leave little to lose here: printed, and no limit.
    one_bit.feedback = false;
    lost("har s1 without its residual", task, one_bit, exact);
  }

  TEST_CASE("one rotation for all boards serves as well as one for each") {
    if (skipped()) return;
    for (const size_t board_count : {size_t{4}, size_t{16}, size_t{64}}) {
      const RoundsTask task =
          fashion_task(dense_net(128), board_count, Split::kIid, board_count == 64 ? 8 : 32);
      RoundsOptions options;
      options.rounds = 400;
      options = coded(options, CodecId::kS1r, CodecId::kRaw32);
      double accuracy[2] = {}, error[2] = {};
      for (const bool each : {false, true}) {
        options.rotation_per_board = each;
        for (const uint64_t seed : kSeeds) {
          options.seed = seed;
          const RoundsResult result = run_rounds(task, options).value();
          accuracy[each] += result.accuracy / std::size(kSeeds);
          error[each] += result.error / std::size(kSeeds);
        }
      }
      std::printf("%2zu boards: one rotation .%04.0f, error %.3f; one each .%04.0f, error %.3f\n",
                  board_count, accuracy[0] * 1e4, error[0], accuracy[1] * 1e4, error[1]);
      std::fflush(stdout);
      CHECK(accuracy[1] - accuracy[0] <= 0.005);
    }
  }
}
