#include "server/fleet_list.h"

#include <toml++/toml.h>

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/base/nearest.h"
#include "runtime/trust/certificate_issue.h"

namespace paceline {

namespace {

constexpr size_t kPendingMax = 64;

ByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

template <class T>
T value_of(const toml::table& table, const char* key) {
  return table[key].value<T>().value_or(T{});
}

// Calls `read` with each table of the array `name`.
template <class Read>
Status read_each(const toml::table& root, const char* name, size_t count_max,
                 const std::string& source, Read read) {
  const toml::node* node = root.get(name);
  if (node == nullptr) return {};
  const toml::array* array = node->as_array();
  if (array == nullptr || array->size() > count_max)
    return fail(Code::kCorrupt, "%s: '%s' has to be at most %zu tables", source.c_str(), name,
                count_max);
  for (const toml::node& entry : *array) {
    const toml::table* table = entry.as_table();
    if (table == nullptr || !read(*table))
      return fail(Code::kCorrupt, "%s:%u: a broken entry of '%s'", source.c_str(),
                  static_cast<unsigned>(entry.source().begin.line), name);
  }
  return {};
}

bool is_hash(const std::string& text) {
  return text.size() == 2 * sizeof(Hash) &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

const ListedWorker* FleetList::find(std::string_view name) const {
  const auto found = std::ranges::find(workers, name, &ListedWorker::name);
  return found == workers.end() ? nullptr : &*found;
}

Status FleetList::admit(const std::string& name, const std::string& key) const {
  const ListedWorker* worker = find(name);
  if (worker == nullptr)
    return fail(Code::kRefused,
                "'%s' is not on the fleet's list; enrol it: edge_server enrol %s, then edge_worker "
                "join on the board",
                name.c_str(), name.c_str());
  if (worker->revoked_at_s != 0)
    return fail(Code::kRefused,
                "'%s' is revoked; if that is a mistake, enrol it again: edge_server enrol %s",
                name.c_str(), name.c_str());
  if (!equal_in_constant_time(bytes_of(worker->key), bytes_of(key)))
    return fail(Code::kRefused,
                "'%s' has another key by now: it was enrolled again since; join again on this "
                "board, or give it another name",
                name.c_str());
  return {};
}

bool FleetList::awaits(int64_t now_s) const {
  return std::ranges::any_of(pending,
                             [&](const PendingEnrolment& p) { return p.expires_at_s > now_s; });
}

void FleetList::open_enrolment(const std::string& name, const Hash& secret_hash, int64_t now_s) {
  std::erase_if(pending, [&](const PendingEnrolment& p) {
    return p.name == name || p.expires_at_s <= now_s;
  });
  if (pending.size() >= kPendingMax) pending.erase(pending.begin());
  pending.push_back({.name = name,
                     .secret_hash = to_hex(secret_hash),
                     .expires_at_s = now_s + kEnrolmentLifeS,
                     .tries_left = kEnrolmentTries});
}

Result<std::string> FleetList::use_secret(const Hash& secret_hash, int64_t now_s) {
  std::erase_if(pending, [&](const PendingEnrolment& p) { return p.expires_at_s <= now_s; });
  const std::string wanted = to_hex(secret_hash);
  for (auto entry = pending.begin(); entry != pending.end(); ++entry) {
    if (!equal_in_constant_time(bytes_of(entry->secret_hash), bytes_of(wanted))) continue;
    std::string name = std::move(entry->name);
    pending.erase(entry);
    return name;
  }
  for (PendingEnrolment& entry : pending) --entry.tries_left;
  std::erase_if(pending, [](const PendingEnrolment& p) { return p.tries_left == 0; });
  return fail(Code::kRefused,
              "this code is wrong, was used or is too old; ask for a new one: edge_server enrol "
              "NAME");
}

void FleetList::enlist(ListedWorker worker) {
  const auto found = std::ranges::find(workers, worker.name, &ListedWorker::name);
  if (found != workers.end())
    *found = std::move(worker);
  else
    workers.push_back(std::move(worker));
}

Status FleetList::revoke(const std::string& name, int64_t now_s) {
  std::erase_if(pending, [&](const PendingEnrolment& p) { return p.name == name; });
  const auto found = std::ranges::find(workers, name, &ListedWorker::name);
  if (found == workers.end()) {
    std::vector<std::string_view> names;
    for (const ListedWorker& worker : workers) names.push_back(worker.name);
    return fail(Code::kNotFound, "no worker is named '%s'%s", name.c_str(),
                suggest_name(name, names).c_str());
  }
  if (found->revoked_at_s != 0)
    return fail(Code::kInvalidArgument, "'%s' is revoked already", name.c_str());
  found->revoked_at_s = now_s;
  return {};
}

std::string fleet_text(const FleetList& fleet) {
  std::string text =
      "# Who may work here, and who may join now. Changed by edge_server enrol and revoke; a\n"
      "# running server follows within a second. Times are seconds since 1970.\n";
  for (const ListedWorker& worker : fleet.workers)
    text += format_text(
        "\n[[worker]]\nname = \"%s\"\nkey = \"%s\"\nserial = \"%s\"\nenrolled = %lld\n"
        "revoked = %lld\n",
        worker.name.c_str(), worker.key.c_str(), worker.serial.c_str(),
        static_cast<long long>(worker.enrolled_at_s), static_cast<long long>(worker.revoked_at_s));
  for (const PendingEnrolment& entry : fleet.pending)
    text += format_text(
        "\n[[pending]]\nname = \"%s\"\nsecret_hash = \"%s\"\nexpires = %lld\ntries = %u\n",
        entry.name.c_str(), entry.secret_hash.c_str(), static_cast<long long>(entry.expires_at_s),
        entry.tries_left);
  return text;
}

Result<FleetList> parse_fleet(std::string_view text, const std::string& source) {
  toml::table root;
  try {
    root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    return fail(Code::kCorrupt, "%s:%u:%u: %s", source.c_str(),
                static_cast<unsigned>(error.source().begin.line),
                static_cast<unsigned>(error.source().begin.column),
                std::string(error.description()).c_str());
  }
  FleetList fleet;
  PACELINE_TRY(read_each(root, "worker", kWorkersMax, source, [&](const toml::table& table) {
    ListedWorker worker{.name = value_of<std::string>(table, "name"),
                        .key = value_of<std::string>(table, "key"),
                        .serial = value_of<std::string>(table, "serial"),
                        .enrolled_at_s = value_of<int64_t>(table, "enrolled"),
                        .revoked_at_s = value_of<int64_t>(table, "revoked")};
    const bool fits =
        check_name(worker.name).ok() && is_hash(worker.key) && fleet.find(worker.name) == nullptr;
    fleet.workers.push_back(std::move(worker));
    return fits;
  }));
  PACELINE_TRY(read_each(root, "pending", kPendingMax, source, [&](const toml::table& table) {
    const int64_t tries = value_of<int64_t>(table, "tries");
    PendingEnrolment entry{.name = value_of<std::string>(table, "name"),
                           .secret_hash = value_of<std::string>(table, "secret_hash"),
                           .expires_at_s = value_of<int64_t>(table, "expires"),
                           .tries_left = 0};
    const bool fits = check_name(entry.name).ok() && is_hash(entry.secret_hash) && tries >= 1 &&
                      tries <= kEnrolmentTries;
    if (fits) entry.tries_left = static_cast<uint32_t>(tries);
    fleet.pending.push_back(std::move(entry));
    return fits;
  }));
  return fleet;
}

}  // namespace paceline
