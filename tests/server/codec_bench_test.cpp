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

// One made-up row.
size_t fault_count(const char* kernel_set, const char* op, uint32_t count, double memcpy_ratio,
                   double read_bound_ratio) {
  CodecRate rate;
  rate.kernel_set = kernel_set;
  rate.codec = "q8";
  rate.op = op;
  rate.count = count;
  rate.memcpy_ratio = memcpy_ratio;
  rate.read_bound_ratio = read_bound_ratio;
  CodecBench bench;
  bench.rates = {rate};
  return codec_bench_faults(bench).size();
}

TEST_CASE("codec bench: the gate wants 0.7 of the target, or at memory size the read bound") {
  CHECK(fault_count("avx2", "encode_ef", 1'048'576, 0.36, 0) == 0);
  CHECK(fault_count("avx2", "encode_ef", 1'048'576, 0.34, 1) == 1);
  CHECK(fault_count("avx512", "sum8", 25'165'824, 2.9, 0.5) == 0);
  CHECK(fault_count("avx512", "sum8", 25'165'824, 2.7, 0.9) == 0);
  CHECK(fault_count("avx512", "sum8", 25'165'824, 2.7, 0.8) == 1);
  CHECK(fault_count("scalar", "sum8", 25'165'824, 0.1, 0.1) == 0);
  CHECK(fault_count("avx2", "update", 1'048'576, 0.1, 0.1) == 0);
  CHECK(fault_count("avx2", "encode_ef", 100'352, 0.1, 0.1) == 0);
}

}  // namespace
}  // namespace paceline
