#include "runtime/quant/dispatch.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "runtime/base/check.h"
#include "runtime/base/log.h"

namespace paceline {

// kernel_sets.inc is written by platforms/CMakeLists.txt: KERNEL_SET(name), best first.
#define KERNEL_SET(name) extern const KernelSet kernel_set_##name;
#include "kernel_sets.inc"
KERNEL_SET(scalar)
#undef KERNEL_SET

namespace {

const std::array kSets = {
#define KERNEL_SET(name) &kernel_set_##name,
#include "kernel_sets.inc"
    KERNEL_SET(scalar)
#undef KERNEL_SET
};

std::atomic<const KernelSet*> chosen{nullptr};

const KernelSet* best() {
  for (const KernelSet* set : kSets)
    if (kernel_set_runs(*set)) return set;
  return &kernel_set_scalar;
}

}  // namespace

std::span<const KernelSet* const> kernel_sets() { return kSets; }

bool kernel_set_runs(const KernelSet& set) { return (set.cpu_features & ~cpu_features()) == 0; }

Result<const KernelSet*> kernel_set_by_name(std::string_view name) {
  std::string names;
  for (const KernelSet* set : kSets) {
    if (set->name != name) {
      names += names.empty() ? "" : ", ";
      names += set->name;
      continue;
    }
    if (!kernel_set_runs(*set))
      return fail(Code::kUnsupported, "this CPU can't run the kernel set '%s'; it runs '%s'",
                  set->name, best()->name);
    return set;
  }
  return fail(Code::kNotFound, "no kernel set '%.*s'; this build has %s",
              static_cast<int>(name.size()), name.data(), names.c_str());
}

Status init_kernels() {
  const char* forced = std::getenv("PACELINE_KERNELS");
  const KernelSet* set = best();
  if (forced != nullptr && *forced != '\0') {
    Result<const KernelSet*> named = kernel_set_by_name(forced);
    if (!named)
      return fail(named.error().code(), "PACELINE_KERNELS: %s", named.error().message().c_str());
    set = *named;
  }
  chosen.store(set, std::memory_order_release);
  return {};
}

const KernelSet& kernels() {
  const KernelSet* set = chosen.load(std::memory_order_acquire);
  if (set != nullptr) return *set;
  if (const Status status = init_kernels(); !status.ok()) {
    log_error("%s", status.message().c_str());
    PACELINE_CHECK(status.ok());
  }
  return *chosen.load(std::memory_order_acquire);
}

void use_kernels(const KernelSet& set) {
  PACELINE_CHECK(kernel_set_runs(set));
  chosen.store(&set, std::memory_order_release);
}

}  // namespace paceline
