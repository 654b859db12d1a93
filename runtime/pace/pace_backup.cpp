// Backup workers (Chen et al. 2016): a round closes with the first N of N + b updates; the b last
// are late. The paper drops what is late. Here a refusal gives the worker its update back, which it
// sends with its next one, so nothing is lost but its freshness; and a worker that hears of the
// close in the middle of its work stops it. With b = 0 it is bsp.
#include <algorithm>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {{"how many workers a round does not wait for", 1, 0, 10'000}};

class BackupPace final : public Pace {
 public:
  explicit BackupPace(size_t spare) : spare_(spare) {}
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kContributors; }
  bool closes(const ClockTable& members) const override {
    const size_t needed = members.size() > spare_ ? members.size() - spare_ : 1;
    return members.held_count() >= needed;
  }
  bool releases(const ClockTable&, const PaceRow& row) const override { return !row.held; }
  const char* waiting_reason() const override { return "the round waits for more workers"; }

 private:
  size_t spare_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_backup_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("backup", parameters, kNumbers));
  return std::make_unique<BackupPace>(numbers[0]);
}

}  // namespace paceline
