#include "server/onnx/export.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "server/onnx/import.h"
#include "tests/server/onnx/sample_nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

using test::answers_of;
using test::layer;
using test::net;

// Random weights, written as ONNX, read again and taken as a run.
void check_round_trip(const std::string& toml, const DataSchema& schema = {}, float reach = 1) {
  INFO(toml);
  const ModelSpec model = test::model_of(toml);
  Random random(test::seed(), 41);
  const std::vector<float> parameters = test::random_parameters(model, random);
  test::Batch batch = test::random_batch(model, 6, random);
  for (float& feature : batch.features) feature *= reach;

  const auto onnx = read_onnx(write_onnx(export_onnx(model, schema, parameters)));
  REQUIRE(onnx.has_value());
  const auto import = import_onnx(*onnx, false);
  REQUIRE_MESSAGE(import.has_value(), import.error().message());
  REQUIRE_MESSAGE(import->refused.empty(), import_text(*import));
  CHECK(import->model.class_count == model.class_count);
  const auto scaling = parse_data_schema(import->toml);
  REQUIRE(scaling.has_value());

  std::vector<float> scaled = batch.features, rescaled = batch.features;
  const size_t columns = test::row_floats(model);
  // Of a window each column has many values.
  const auto at = [&](const std::vector<float>& values, size_t place) {
    return values[place * values.size() / columns];
  };
  for (size_t i = 0; i < scaled.size(); ++i) {
    scaled[i] = scaled[i] * at(schema.scale, i % columns) + at(schema.offset, i % columns);
    rescaled[i] = rescaled[i] * at(scaling->scale, i % columns) + at(scaling->offset, i % columns);
  }
  std::vector<float> wanted = answers_of(model, parameters, scaled);
  if (model.class_count == 0)
    for (float& value : wanted) value = (value - schema.label_offset) / schema.label_scale;
  const std::vector<float> given = answers_of(import->model, import->parameters, rescaled);
  REQUIRE(given.size() == wanted.size());
  for (size_t i = 0; i < given.size(); ++i)
    CHECK(std::abs(given[i] - wanted[i]) < 1e-5f * std::max(1.0f, std::abs(wanted[i])));
}

}  // namespace

TEST_SUITE_BEGIN("onnx/export");

TEST_CASE("export: what is read again and imported gives the same answers, for every layer") {
  for (const test::SampleNet& sample : test::sample_nets())
    check_round_trip(sample.toml, {}, sample.reach);
}

TEST_CASE("export: a table's scales come first, a label's unit last") {
  DataSchema schema;
  schema.scale = {0.5f, 2.0f, 1.0f, 4.0f};
  schema.offset = {0.0f, 1.0f, -3.0f, 0.25f};
  schema.label_scale = 0.08f;
  schema.label_offset = -1.5f;
  const std::string numbers = "[model]\ninput = [4]\noutputs = 1\n" +
                              layer("dense", "units = 5\n") + layer("tanh") +
                              layer("dense", "units = 1\n");
  check_round_trip(numbers, schema);
  check_round_trip(net("[4]", layer("dense", "units = 5\n")), schema);
  schema.columns = {"a", "b", "say \"c\"", "d"};
  schema.label = "state";
  schema.classes = {"off", "idle", "busy"};
  check_round_trip(net("[4]", layer("dense", "units = 5\n")), schema);
  schema.windows.rows = 9;
  check_round_trip(net("[4, 9]", layer("conv1d", "filters = 3\nkernel = 2\n")), schema);
  check_round_trip(net("[4, 9]", layer("flatten") + layer("dense", "units = 3\n")), schema);
  check_round_trip(net("[4, 9]", layer("lstm", "units = 3\n")), schema);
  DataSchema one;
  one.scale = {0.125f};
  one.offset = {-0.75f};
  check_round_trip(net("[4]", layer("dense", "units = 5\n")), one);
  check_round_trip(net("[2, 6, 5]", layer("conv2d", "filters = 2\nkernel = 2\n")), one);
}

TEST_CASE("export: columns, label, classes and scales come back as [data]") {
  DataSchema schema;
  schema.columns = {"a", "b"};
  schema.label = "state";
  schema.classes = {"off", "idle", "busy"};
  schema.scale = {0.1f, 3.0f};
  schema.offset = {-1.0f, 0.7f};
  const ModelSpec model = test::model_of(net("[2]", layer("relu")));
  const std::vector<float> parameters(test::parameter_floats(model));
  const auto import = import_onnx(export_onnx(model, schema, parameters), false);
  REQUIRE(import.has_value());
  const auto again = parse_data_schema(import->toml);
  REQUIRE(again.has_value());
  CHECK(again->columns == schema.columns);
  CHECK(again->label == schema.label);
  CHECK(again->classes == schema.classes);
  CHECK(again->scale == schema.scale);
  CHECK(again->offset == schema.offset);
  CHECK(import->model.layers.size() == 2);
}

TEST_CASE("export: a group_norm comes back as one layer, a dense net as it was") {
  const auto again = [](const std::string& toml) {
    const ModelSpec model = test::model_of(toml);
    const std::vector<float> parameters(test::parameter_floats(model));
    auto import = import_onnx(export_onnx(model, {}, parameters), false);
    REQUIRE(import.has_value());
    std::string types;
    for (const LayerSpec& spec : import->model.layers) types += spec.type + " ";
    return types;
  };
  CHECK(again(std::string(test::kSmallMlp)) == "dense relu dense ");
  CHECK(again(net("[2, 9, 8]", layer("conv2d", "filters = 6\nkernel = 3\n") +
                                   layer("group_norm", "groups = 3\n") + layer("gelu"))) ==
        "reshape conv2d group_norm gelu flatten dense ");
}

TEST_SUITE_END();

}  // namespace paceline
