#include "server/codec_gate.h"

#include <doctest/doctest.h>

#include <map>

#include "runtime/quant/dispatch.h"

namespace paceline {
namespace {

CodecRate made_up(const char* kernel_set, const char* op, uint32_t count, double memcpy_ratio,
                  double read_bound_ratio) {
  CodecRate rate;
  rate.kernel_set = kernel_set;
  rate.codec = "q8";
  rate.op = op;
  rate.count = count;
  rate.memcpy_ratio = memcpy_ratio;
  rate.read_bound_ratio = read_bound_ratio;
  return rate;
}

bool is_slow(const char* kernel_set, const char* op, uint32_t count, double memcpy_ratio,
             double read_bound_ratio) {
  return !codec_fault(made_up(kernel_set, op, count, memcpy_ratio, read_bound_ratio)).empty();
}

TEST_CASE("codec gate: it wants 0.7 of the target, or at memory size the read bound") {
  CHECK(!is_slow("avx2", "encode_ef", 1'048'576, 0.36, 0));
  CHECK(is_slow("avx2", "encode_ef", 1'048'576, 0.34, 1));
  CHECK(!is_slow("avx512", "sum8", 25'165'824, 2.9, 0.5));
  CHECK(!is_slow("avx512", "sum8", 25'165'824, 2.7, 0.9));
  CHECK(is_slow("avx512", "sum8", 25'165'824, 2.7, 0.8));
  CHECK(!is_slow("scalar", "sum8", 25'165'824, 0.1, 0.1));
  CHECK(!is_slow("avx2", "update", 1'048'576, 0.1, 0.1));
  CHECK(!is_slow("avx2", "encode_ef", 100'352, 0.1, 0.1));
}

// A machine that gives each row the speeds of a list, one a try, and the last one from then on.
class MadeUpMachine {
 public:
  explicit MadeUpMachine(std::vector<double> ratios) : ratios_(std::move(ratios)) {}
  // Of this operation alone; the others are fast.
  void slow_down(const std::string& op) { slow_op_ = op; }
  size_t tries_of(const std::string& op) const {
    const auto found = tries_.find(op);
    return found == tries_.end() ? 0 : found->second;
  }

  Result<CodecBench> measure(const CodecBenchOptions& options) {
    CodecBench bench;
    for (const std::string& op : options.ops) {
      const std::string row = options.kernel_sets.front() + options.codecs.front() + op +
                              std::to_string(options.elements.front());
      size_t& tries = tries_of_row_[row];
      const double ratio = op == slow_op_ ? ratios_[std::min(tries, ratios_.size() - 1)] : 99;
      tries_[op] = std::max(tries_[op], ++tries);
      bench.rates.push_back(made_up(options.kernel_sets.front().c_str(), op.c_str(),
                                    options.elements.front(), ratio, 0));
      bench.rates.back().codec = options.codecs.front();
    }
    return bench;
  }
  Result<CodecGate> run() {
    return run_codec_gate([this](const CodecBenchOptions& options) { return measure(options); });
  }

 private:
  std::vector<double> ratios_;
  std::string slow_op_;
  std::map<std::string, size_t> tries_;
  std::map<std::string, size_t> tries_of_row_;
};

bool has_targets() {
  return kernel_set_by_name("avx2").has_value() || kernel_set_by_name("avx512").has_value();
}

TEST_CASE("codec gate: a row that is fast enough is measured once") {
  MadeUpMachine machine({99});
  const Result<CodecGate> gate = machine.run();
  REQUIRE(gate.has_value());
  CHECK(gate->faults.empty());
  CHECK(gate->bench.rates.empty() == !has_targets());
  CHECK(machine.tries_of("encode_ef") == (has_targets() ? 1 : 0));
}

TEST_CASE("codec gate: only a slow row is tried again, and one good try is enough") {
  if (!has_targets()) return;
  MadeUpMachine machine({0.01, 0.02, 9});
  machine.slow_down("encode_ef");
  const Result<CodecGate> gate = machine.run();
  REQUIRE(gate.has_value());
  CHECK(gate->faults.empty());
  CHECK(machine.tries_of("encode_ef") == 3);
  CHECK(machine.tries_of("sum8") == 1);
}

TEST_CASE("codec gate: what stays slow is a fault with the best of five tries") {
  if (!has_targets()) return;
  MadeUpMachine machine({0.01, 0.03, 0.02});
  machine.slow_down("server_round");
  const Result<CodecGate> gate = machine.run();
  REQUIRE(gate.has_value());
  CHECK(machine.tries_of("server_round") == 5);
  REQUIRE(!gate->faults.empty());
  CHECK(gate->faults.front().find("0.03 of memcpy") != std::string::npos);
}

TEST_CASE("codec gate: an error of a measurement is the gate's") {
  if (!has_targets()) return;
  const Result<CodecGate> gate = run_codec_gate([](const CodecBenchOptions&) -> Result<CodecBench> {
    return fail(Code::kUnsupported, "no clock");
  });
  REQUIRE(!gate.has_value());
  CHECK(gate.error().code() == Code::kUnsupported);
}

}  // namespace
}  // namespace paceline
