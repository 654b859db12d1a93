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

// `set`, and the scalar loops where it has none of its own.
KernelSet completed(KernelSet set) {
  const auto complete = [&set](auto entry) {
    if (set.*entry == nullptr) set.*entry = kernel_set_scalar.*entry;
  };
  complete(&KernelSet::subtract);
  complete(&KernelSet::apply_mean);
  complete(&KernelSet::close);
  complete(&KernelSet::encode_q4);
  complete(&KernelSet::encode_q4r);
  complete(&KernelSet::add_q4);
  complete(&KernelSet::add_q4r);
  complete(&KernelSet::sum_q4);
  complete(&KernelSet::gather_maxima);
  complete(&KernelSet::find_large);
  return set;
}

std::atomic<const KernelSet*> chosen{nullptr};

const KernelSet* best() {
  for (const KernelSet* set : kernel_sets())
    if (kernel_set_runs(*set)) return set;
  return kernel_sets().back();
}

}  // namespace

std::span<const KernelSet* const> kernel_sets() {
  static const std::array sets = {
#define KERNEL_SET(name) completed(kernel_set_##name),
#include "kernel_sets.inc"
      KERNEL_SET(scalar)
#undef KERNEL_SET
  };
  static const auto pointers = [] {
    std::array<const KernelSet*, std::tuple_size_v<decltype(sets)>> all;
    for (size_t i = 0; i < all.size(); ++i) all[i] = &sets[i];
    return all;
  }();
  return pointers;
}

bool kernel_set_runs(const KernelSet& set) { return (set.cpu_features & ~cpu_features()) == 0; }

Result<const KernelSet*> kernel_set_by_name(std::string_view name) {
  std::string names;
  for (const KernelSet* set : kernel_sets()) {
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
