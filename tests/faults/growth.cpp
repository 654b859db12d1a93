#include "tests/faults/growth.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/status.h"

namespace paceline::test {

std::optional<ProcessSize> size_of_process(pid_t pid) {
  std::ifstream pages(format_text("/proc/%d/statm", pid));
  uint64_t total = 0, resident = 0;
  if (!(pages >> total >> resident)) return std::nullopt;
  ProcessSize size;
  size.megabytes = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
  std::error_code error;
  const std::string folder = format_text("/proc/%d/fd", pid);
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    size.files += 1;
  if (error) return std::nullopt;
  return size;
}

void Growth::begin_life(TimeUs now) {
  earlier_ = with_this_life();
  life_ = {};
  began_ = last_ = now;
}

void Growth::observe(const ProcessSize& size, TimeUs now) {
  last_ = now;
  if (now - began_ < kBeginning) return;
  const double hours = to_seconds(now - began_) / 3600;
  life_.count += 1;
  life_.t += hours;
  life_.tt += hours * hours;
  life_.mb += size.megabytes;
  life_.tmb += hours * size.megabytes;
  life_.files += size.files;
  life_.tfiles += hours * size.files;
}

Growth::Spread Growth::with_this_life() const {
  Spread spread = earlier_;
  if (last_ - began_ < kLifeMin || life_.count < 2) return spread;
  spread.tt += life_.tt - life_.t * life_.t / life_.count;
  spread.tmb += life_.tmb - life_.t * life_.mb / life_.count;
  spread.tfiles += life_.tfiles - life_.t * life_.files / life_.count;
  return spread;
}

std::optional<Growth::Slope> Growth::slope() const {
  const Spread spread = with_this_life();
  if (!(spread.tt > 0)) return std::nullopt;
  return Slope{spread.tmb / spread.tt, spread.tfiles / spread.tt};
}

}  // namespace paceline::test
