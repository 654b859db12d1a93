#include "server/codec_bench.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"

namespace paceline {
namespace {

CodecBenchOptions short_options() {
  CodecBenchOptions options;
  options.elements = {4096};
  options.repeats = 1;
  options.repeat_ms = 0;
  return options;
}

TEST_CASE("codec bench: a row for every codec, operation and kernel set, in JSON and as a table") {
  const KernelSet& before = kernels();
  const Result<CodecBench> bench = run_codec_bench(short_options());
  REQUIRE(bench.has_value());
  CHECK(&kernels() == &before);
  size_t sets = 0;
  for (const KernelSet* set : kernel_sets()) sets += kernel_set_runs(*set) ? 1 : 0;
  const auto json = nlohmann::json::parse(codec_bench_json(*bench));
  CHECK(json["yardsticks"].size() == sets);
  REQUIRE(json["rows"].size() == sets * codecs().size() * 6);
  for (const auto& row : json["rows"]) {
    CHECK(row["count"] == 4096);
    CHECK(row["gb_per_s"] > 0.0);
    CHECK(row["memcpy_ratio"] > 0.0);
    CHECK(row["read_bound_ratio"] > 0.0);
  }
  CHECK(codec_bench_text(*bench).find("server_round") != std::string::npos);
}

TEST_CASE("codec bench: below 4,096 elements only block operations of most codecs are measured") {
  CodecBenchOptions options = short_options();
  options.elements = {1024};
  options.codecs = {"s1"};
  options.kernel_sets = {"scalar"};
  const Result<CodecBench> bench = run_codec_bench(options);
  REQUIRE(bench.has_value());
  CHECK(bench->rates.size() == 3);
}

TEST_CASE("codec bench: an unknown codec or kernel set is an error") {
  CodecBenchOptions options = short_options();
  options.codecs = {"q7"};
  CHECK(run_codec_bench(options).error().code() == Code::kInvalidArgument);
  options = short_options();
  options.kernel_sets = {"mmx"};
  CHECK(run_codec_bench(options).error().code() == Code::kNotFound);
}

TEST_CASE("codec bench: only the wanted operations are measured") {
  CodecBenchOptions options = short_options();
  options.codecs = {"q8"};
  options.kernel_sets = {"scalar"};
  options.ops = {"decode_add", "sum8"};
  const Result<CodecBench> bench = run_codec_bench(options);
  REQUIRE(bench.has_value());
  REQUIRE(bench->rates.size() == 2);
  CHECK(bench->rates[0].op == "decode_add");
  CHECK(bench->rates[1].op == "sum8");
}

}  // namespace
}  // namespace paceline
