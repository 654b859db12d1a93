#include "runtime/train/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/train/training.h"
#include "tests/runtime/train/naive_net.h"
#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

constexpr std::string_view kNormedNet = R"(
[model]
input = [3, 2, 2]
outputs = 2
[[layer]]
type = "batch_norm"
[[layer]]
type = "flatten"
[[layer]]
type = "dense"
units = 2
)";

std::vector<float> values_of(size_t count, int factor, int start, int period, int middle,
                             int over) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((static_cast<int>(i) * factor + start) % period - middle) /
                     static_cast<float>(over));
  return values;
}

void check_close(std::span<const float> given, std::initializer_list<double> wanted) {
  REQUIRE(given.size() == wanted.size());
  size_t i = 0;
  for (const double value : wanted) CHECK(std::abs(static_cast<double>(given[i++]) - value) < 1e-6);
}

// The parameters for which PyTorch gave the figures below.
std::vector<float> normed_parameters(const ModelSpec& spec) {
  std::vector<float> flat(test::parameter_floats(spec));
  const auto set = [&](size_t tensor, const std::vector<float>& values) {
    std::ranges::copy(values,
                      test::tensor_of(std::span(flat), spec.layout.tensors()[tensor]).begin());
  };
  set(0, values_of(3, 3, 0, 5, 2, 4));
  set(1, values_of(3, 2, 0, 3, 1, 4));
  set(3, values_of(24, 7, 0, 11, 5, 10));
  set(4, {0.1f, -0.2f});
  return flat;
}

// Means and M2s by the definition, over all rows at once.
std::vector<double> two_pass(const std::vector<std::vector<float>>& rows, size_t channels) {
  std::vector<double> values(2 * channels);
  const auto count = static_cast<double>(rows.size());
  for (size_t c = 0; c < channels; ++c) {
    for (const auto& row : rows) values[c] += static_cast<double>(row[c]) / count;
    for (const auto& row : rows)
      values[channels + c] += std::pow(static_cast<double>(row[c]) - values[c], 2);
  }
  return values;
}

ParameterLayout layout_of(std::initializer_list<uint32_t> channels) {
  std::vector<TensorSpec> tensors = {{"weight", TensorClass::kWeight, {5}}};
  for (const uint32_t count : channels)
    tensors.push_back({"s" + std::to_string(tensors.size()), TensorClass::kStatistic, {2, count}});
  return ParameterLayout::make(std::move(tensors)).value();
}

}  // namespace

TEST_SUITE_BEGIN("train/statistics");

// Figures: torch 1.13, BatchNorm2d(3, momentum=1) and Linear(12, 2) in double, MSELoss.
TEST_CASE("batch_norm: loss, gradients, statistics and evaluation are PyTorch's") {
  const ModelSpec spec = test::model_of(kNormedNet);
  std::vector<float> parameters = normed_parameters(spec), gradient(parameters.size());
  const std::vector<float> x = values_of(48, 13, 0, 17, 8, 5), t = values_of(8, 5, 0, 7, 3, 4);
  for (const std::string& backend : backends()) {
    auto trainer = *make_trainer(spec, 4, backend, {.kind = LossKind::kMse, .class_weights = {}});
    const auto loss = trainer->gradient(parameters, x, t, gradient);
    REQUIRE(loss.has_value());
    const auto of = [&](size_t tensor) {
      return test::tensor_of(std::span<const float>(gradient), spec.layout.tensors()[tensor]);
    };
    CHECK(std::abs(static_cast<double>(*loss) - 0.6263636354101911) < 1e-6);
    check_close(of(0), {0.4164194232440762, 0.220718397108146, 0.44078983689543305});
    check_close(of(1), {-0.28423134975724973, 0.2559880754501217, -0.3511815103740304});
    check_close(of(2), {0.0125, 0.0, -0.0125, 0.99234375, 0.995, 0.99234375});
    check_close(of(3).first(4),
                {-0.6022282531552967, 0.2814170114031437, 0.09528122985303662, -0.316452599167315});
    check_close(of(3).last(4), {0.19738823507026979, 0.17890679765300843, -0.1840740606351292,
                                -0.1592671065801655});
    std::vector<float> published = parameters, answers(2);
    StatisticsPool pool(spec.layout);
    pool.take_batch(4, gradient);
    CHECK(test::all_zero(of(2)));
    pool.publish(published);
    REQUIRE(trainer->predict(published, values_of(12, 13, 5, 17, 8, 5), answers).ok());
    check_close(answers, {0.6488791920397567, -1.2317760662341386});
  }
}

TEST_CASE("batch_norm: behind sparse rows, too, a gradient tells the batch's statistics") {
  const ModelSpec spec = test::model_of(
      "[model]\ninput = [2, 4]\nclasses = 3\n[[layer]]\ntype = 'sparse_dense'\nentries = 20\n"
      "units = 5\n[[layer]]\ntype = 'batch_norm'\n[[layer]]\ntype = 'dense'\nunits = 3\n");
  Random random(test::seed(), 74);
  const std::vector<float> parameters = test::random_parameters(spec, random);
  std::vector<float> gradient(parameters.size()), fresh(parameters.size());
  auto trainer = *make_trainer(spec, 8, "reference"), other = *make_trainer(spec, 8, "reference");
  for (int step = 0; step < 3; ++step) {
    test::Batch batch = test::random_batch(spec, 8, random);
    for (size_t i = 0; i < batch.features.size(); ++i)
      if (i % 8 < 4) batch.features[i] = static_cast<float>(random.below(20));
    REQUIRE(trainer->gradient(parameters, batch.features, batch.labels, gradient).has_value());
    std::ranges::fill(fresh, 0.0f);
    REQUIRE(other->gradient(parameters, batch.features, batch.labels, fresh).has_value());
    CHECK(gradient == fresh);
    const std::vector<float> seen = published_statistics(spec.layout, gradient);
    for (size_t i = 5; i < 10; ++i) CHECK(seen[i] > 0.0f);
  }
}

TEST_CASE("init_parameters: statistics start as if nothing had to be changed") {
  const ModelSpec spec = test::model_of(kNormedNet);
  std::vector<float> flat(test::parameter_floats(spec));
  init_parameters(spec, 1, flat);
  CHECK(published_statistics(spec.layout, flat) == std::vector<float>{0, 0, 0, 1, 1, 1});
  CHECK(statistic_count(spec.layout) == 6);
  CHECK(statistic_count(test::model_of(test::kSmallCnn).layout) == 0);
}

TEST_CASE("pool: whatever the parts, what comes out is the mean and M2 of all rows") {
  Random random(test::seed(), 70);
  for (int round = 0; round < 200; ++round) {
    const ParameterLayout layout = layout_of({3, 300});
    StatisticsPool all(layout);
    std::vector<std::vector<float>> rows;
    for (uint64_t board = 1 + random.below(4); board > 0; --board) {
      StatisticsPool seen(layout);
      for (uint64_t batch = 1 + random.below(4); batch > 0; --batch) {
        const size_t count = 2 + static_cast<size_t>(random.below(6));
        std::vector<std::vector<float>> part(count, std::vector<float>(303));
        for (auto& row : part)
          for (float& value : row) value = 5.0f + 3.0f * random.symmetric();
        rows.insert(rows.end(), part.begin(), part.end());
        // As a trainer gives it.
        std::vector<float> gradient(layout.element_count(), 7.0f);
        for (const size_t tensor : {1u, 2u}) {
          const size_t first = tensor == 1 ? 0 : 3, channels = tensor == 1 ? 3 : 300;
          std::vector<std::vector<float>> cut;
          for (const auto& row : part)
            cut.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(first),
                             row.begin() + static_cast<std::ptrdiff_t>(first + channels));
          const std::vector<double> exact = two_pass(cut, channels);
          const std::span<float> place =
              test::tensor_of(std::span(gradient), layout.tensors()[tensor]);
          for (size_t i = 0; i < 2 * channels; ++i)
            place[i] =
                static_cast<float>(exact[i] / (i < channels ? 1.0 : static_cast<double>(count)));
        }
        seen.take_batch(count, gradient);
        CHECK(gradient[0] == 7.0f);
      }
      const Statistics sent = seen.statistics();
      REQUIRE(all.check(sent, sent.rows).ok());
      all.add(sent);
    }
    const Statistics pooled = all.statistics();
    CHECK(pooled.rows == rows.size());
    const std::vector<double> exact = two_pass(rows, 303);
    std::vector<float> flat(layout.element_count());
    all.publish(flat);
    const std::vector<float> published = published_statistics(layout, flat);
    for (size_t c = 0; c < 303; ++c) {
      const size_t mean = c < 3 ? c : c + 3, square = mean + (c < 3 ? 3 : 300);
      REQUIRE(static_cast<double>(pooled.values[mean]) == doctest::Approx(exact[c]).epsilon(1e-5));
      REQUIRE(static_cast<double>(pooled.values[square]) ==
              doctest::Approx(exact[303 + c]).epsilon(1e-4));
      REQUIRE(static_cast<double>(published[square]) ==
              doctest::Approx(exact[303 + c] / static_cast<double>(rows.size())).epsilon(1e-4));
    }
  }
}

TEST_CASE("weigh_at_most: what is older counts less, and its own mean and variance stay") {
  const ParameterLayout layout = layout_of({1});
  StatisticsPool pool(layout);
  pool.add({1000, {2.0f, 4000.0f}});
  pool.weigh_at_most(90);
  std::vector<float> flat(layout.element_count());
  pool.publish(flat);
  CHECK(published_statistics(layout, flat) == std::vector<float>{2.0f, 4.0f});
  pool.add({10, {12.0f, 40.0f}});
  pool.publish(flat);
  CHECK(published_statistics(layout, flat) == std::vector<float>{3.0f, 13.0f});  // 4 + 10^2 * .09
}

TEST_CASE("check: no word of a worker makes a variance negative or not finite") {
  const ParameterLayout layout = layout_of({2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const StatisticsPool empty(layout);
  CHECK(empty.check({}, 10).ok());
  CHECK(empty.check({10, {1, 2, 0, 3}}, 10).ok());
  for (const Statistics& lie :
       {Statistics{10, {1, 2, -1e-30f, 3}}, Statistics{10, {nan, 2, 1, 3}},
        Statistics{10, {1, 2, 1, nan}}, Statistics{10, {infinity, 2, 1, 3}},
        Statistics{10, {1, 2, infinity, 3}}, Statistics{10, {1e30f, 2, 1, 3}},
        Statistics{11, {1, 2, 1, 3}}, Statistics{0, {1, 2, 1, 3}}, Statistics{10, {}},
        Statistics{10, {1, 2, 1}}, Statistics{UINT64_MAX, {1, 2, 1, 3}}})
    CHECK(empty.check(lie, 10).code() == Code::kCorrupt);
  CHECK(StatisticsPool(layout_of({})).check({1, {1, 2, 1, 3}}, 10).code() == Code::kCorrupt);
  // The worst that passes, again and again.
  Random random(test::seed(), 71);
  for (int round = 0; round < 500; ++round) {
    StatisticsPool pool(layout);
    for (uint64_t count = 1 + random.below(30); count > 0; --count) {
      Statistics said{1 + random.below(1u << 30), {}};
      for (int i = 0; i < 4; ++i) {
        const float size =
            std::ldexp(1.0f + random.symmetric(), static_cast<int>(random.below(250)) - 140);
        said.values.push_back(i < 2 && random.below(2) ? -size : size);
      }
      if (!pool.check(said, 1u << 30).ok()) continue;
      pool.weigh_at_most(static_cast<double>(random.below(1u << 31)) + 1);
      pool.add(said);
    }
    std::vector<float> flat(layout.element_count());
    pool.publish(flat);
    for (const float value : published_statistics(layout, flat))
      REQUIRE(std::fabs(value) < 0x1p118f);
    const std::vector<float> published = published_statistics(layout, flat);
    REQUIRE(published[2] >= 0.0f);
    REQUIRE(published[3] >= 0.0f);
  }
}

TEST_CASE("save: a pool comes back to the bit; a damaged one is an error or a sound pool") {
  const ParameterLayout layout = layout_of({2, 1});
  StatisticsPool pool(layout), again(layout);
  pool.add({7, {1, -2, 3, 4, 0.1f, 9}});
  pool.weigh_at_most(3.3);
  ByteWriter out;
  pool.save(&out);
  ByteReader in(out.bytes());
  REQUIRE(again.load(&in).ok());
  CHECK(in.left() == 0);
  CHECK(again.statistics() == pool.statistics());
  Random random(test::seed(), 72);
  for (int i = 0; i < 500; ++i) {
    Bytes bytes = out.bytes();
    bytes[static_cast<size_t>(random.below(bytes.size()))] =
        static_cast<std::byte>(random.below(256));
    ByteReader damaged(bytes);
    if (!again.load(&damaged).ok()) continue;
    std::vector<float> flat(layout.element_count());
    again.publish(flat);
    for (const float value : flat) REQUIRE(!(value != value));
  }
}

TEST_CASE("parse_run: batch_norm needs two rows, and has a bound") {
  const std::string text(kNormedNet);
  CHECK(parse_run(text + "[training]\nloss = 'mse'\nbatch = 2\n").has_value());
  CHECK(parse_run(text + "[training]\nloss = 'mse'\nbatch = 1\n").error().message() ==
        "run:14:9: batch_norm needs batches of two rows at least");
  const std::string wide =
      "[model]\ninput = [8000]\nclasses = 2\n[[layer]]\ntype = 'batch_norm'\n[[layer]]\ntype = "
      "'dense'\nunits = 2\n";
  CHECK(parse_model(wide).error().message() ==
        "line 1, column 1: batch_norm over 8000 channels, at most 7168");
}

TEST_SUITE_END();

}  // namespace paceline
