#include "runtime/quant/dispatch.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace paceline {
namespace {

class ForcedKernels {
 public:
  explicit ForcedKernels(const char* name) { setenv("PACELINE_KERNELS", name, 1); }
  ~ForcedKernels() { unsetenv("PACELINE_KERNELS"); }
};

TEST_CASE("dispatch: the scalar set is there, last, and runs everywhere") {
  REQUIRE(!kernel_sets().empty());
  CHECK(std::string(kernel_sets().back()->name) == "scalar");
  CHECK(kernel_set_runs(*kernel_sets().back()));
}

TEST_CASE("dispatch: without a wish the first set that the CPU runs is chosen") {
  unsetenv("PACELINE_KERNELS");
  REQUIRE(init_kernels().ok());
  const KernelSet* first = nullptr;
  for (const KernelSet* set : kernel_sets())
    if (first == nullptr && kernel_set_runs(*set)) first = set;
  CHECK(&kernels() == first);
}

TEST_CASE("dispatch: PACELINE_KERNELS forces each set that the CPU runs") {
  for (const KernelSet* set : kernel_sets()) {
    const ForcedKernels forced(set->name);
    const Status status = init_kernels();
    if (kernel_set_runs(*set)) {
      CHECK(status.ok());
      CHECK(&kernels() == set);
    } else {
      CHECK(status.code() == Code::kUnsupported);
    }
  }
}

TEST_CASE("dispatch: an unknown PACELINE_KERNELS is an error that lists the sets") {
  const ForcedKernels forced("mmx");
  const Status status = init_kernels();
  CHECK(status.code() == Code::kNotFound);
  CHECK(status.message().find("mmx") != std::string::npos);
  CHECK(status.message().find("scalar") != std::string::npos);
}

TEST_CASE("dispatch: a set that needs more than the CPU has does not run") {
  KernelSet greedy = *kernel_sets().back();
  greedy.cpu_features = 1u << 31;
  CHECK(!kernel_set_runs(greedy));
}

}  // namespace
}  // namespace paceline
