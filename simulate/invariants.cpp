#include "simulate/invariants.h"

#include <algorithm>
#include <charconv>

namespace paceline {

namespace {

// Sequences below the newest that are remembered: a repeat comes soon or not at all.
constexpr size_t kSequencesKept = 4096;

// Numbers of "ssp:3" or "dssp:3,12", where they are missing the rule's own.
std::vector<uint64_t> numbers_of(std::string_view parameters, std::vector<uint64_t> numbers) {
  for (uint64_t& number : numbers) {
    const size_t comma = parameters.find(',');
    const std::string_view part = parameters.substr(0, comma);
    std::from_chars(part.data(), part.data() + part.size(), number);
    if (comma == std::string_view::npos) break;
    parameters.remove_prefix(comma + 1);
  }
  return numbers;
}

}  // namespace

uint64_t pace_lead_max(const std::string& pace) {
  std::string_view text = pace;
  text = text.substr(0, text.find('+'));
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (name == "bsp" || name == "compat" || name == "ap_local") return 1;
  if (name == "ssp") return numbers_of(rest, {3})[0] + 1;
  if (name == "wsp") return numbers_of(rest, {2, 5})[1] + 1;
  if (name == "dsp") return 10 + 1;  // how far its monitor may move the bound
  if (name == "dssp") {
    const std::vector<uint64_t> numbers = numbers_of(rest, {3, 12});
    return numbers[0] + numbers[1] + 1;
  }
  return UINT64_MAX;
}

FleetInvariants::FleetInvariants(Fleet& fleet) : fleet_(fleet) {
  fleet.server().set_observer(this);
}

void FleetInvariants::applied(const Member& member, const HeldUpdate& update) {
  if (sequences_.size() <= member.id) sequences_.resize(size_t{member.id} + 1);
  std::set<uint64_t>& known = sequences_[member.id];
  if (!known.insert(update.sequence).second && broken_.empty())
    broken_ = format_text("%s: update %llu is applied twice", member.name.c_str(),
                          static_cast<unsigned long long>(update.sequence));
  if (update.sequence >= member.next_sequence && broken_.empty())
    broken_ = format_text("%s: update %llu is applied, and was never sent", member.name.c_str(),
                          static_cast<unsigned long long>(update.sequence));
  if (known.size() > kSequencesKept) known.erase(known.begin());
}

void FleetInvariants::check_versions() {
  const ServerCore& server = fleet_.server();
  const Numbers now = {server.generation(), server.publication(), server.version(), server.round()};
  if (now.generation < seen_.generation || now.publication < seen_.publication ||
      now.version < seen_.version || now.round < seen_.round)
    broken_ = format_text(
        "the server went back: publication %llu after %llu, version %llu after %llu, round %llu "
        "after %llu",
        static_cast<unsigned long long>(now.publication),
        static_cast<unsigned long long>(seen_.publication),
        static_cast<unsigned long long>(now.version),
        static_cast<unsigned long long>(seen_.version), static_cast<unsigned long long>(now.round),
        static_cast<unsigned long long>(seen_.round));
  seen_ = now;
}

void FleetInvariants::check_workers() {
  for (size_t i = 0; i < fleet_.worker_count() && broken_.empty(); ++i)
    if (fleet_.runs(i) && fleet_.worker(i).generation() == seen_.generation &&
        fleet_.worker(i).publication() > seen_.publication)
      broken_ = format_text("worker %zu holds publication %llu; the server's is %llu", i,
                            static_cast<unsigned long long>(fleet_.worker(i).publication()),
                            static_cast<unsigned long long>(seen_.publication));
}

// A refusal for what is in an update is no grant: its worker goes on without asking the pace, or a
// faulty board would stop the others. So each may take it one further.
void FleetInvariants::check_leads() {
  uint64_t smallest = UINT64_MAX;
  for (const Member& member : fleet_.server().members())
    if (member.counted) smallest = std::min(smallest, member.clock);
  for (const Member& member : fleet_.server().members()) {
    if (!member.counted || member.clock - smallest <= lead_max_ + member.strikes) continue;
    broken_ = format_text("%s leads by %llu exchanges; %s allows %llu", member.name.c_str(),
                          static_cast<unsigned long long>(member.clock - smallest), rule_.c_str(),
                          static_cast<unsigned long long>(lead_max_));
  }
}

bool FleetInvariants::hold() {
  if (!broken_.empty()) return false;
  check_versions();
  check_workers();
  if (rule_ != fleet_.server().pace_name()) {
    rule_ = fleet_.server().pace_name();
    lead_max_ = pace_lead_max(rule_);
  }
  if (lead_max_ != UINT64_MAX) check_leads();
  size_t parked = 0;
  for (const Member& member : fleet_.server().members())
    parked += (member.exchange.token != 0 ? 1u : 0u) + (member.ready_request.token != 0 ? 1u : 0u);
  if (fleet_.requests_waiting() > parked)
    broken_ = format_text("%zu requests wait for an answer, and the server knows of %zu",
                          fleet_.requests_waiting(), parked);
  return broken_.empty();
}

}  // namespace paceline
