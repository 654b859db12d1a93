#include "runtime/data/json_row.h"

#include <algorithm>

#include "runtime/base/json_text.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

struct Member {
  std::string name;
  std::string_view value;  // as it stands in the text
};

Result<std::vector<Member>> read_members(std::string_view line) {
  JsonReader json(line);
  std::vector<Member> members;
  PACELINE_TRY(json.expect('{'));
  while (members.empty() ? !json.take('}') : json.take(',')) {
    Member member;
    PACELINE_ASSIGN(member.name, json.string());
    PACELINE_TRY(json.expect(':'));
    PACELINE_ASSIGN(member.value, json.raw_value());
    members.push_back(std::move(member));
    if (members.size() > kCsvColumnsMax)
      return fail(Code::kCorrupt, "more than %zu values", kCsvColumnsMax);
  }
  if (!members.empty()) PACELINE_TRY(json.expect('}'));
  PACELINE_TRY(json.expect_end());
  return members;
}

}  // namespace

bool looks_like_json(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && line[first] == '{';
}

Result<std::vector<std::string>> json_columns(std::string_view line) {
  PACELINE_ASSIGN(std::vector<Member> members, read_members(line));
  std::vector<std::string> columns;
  for (Member& member : members) {
    if (std::ranges::find(columns, member.name) != columns.end())
      return fail(Code::kCorrupt, "column %s occurs twice", quote_for_message(member.name).c_str());
    columns.push_back(std::move(member.name));
  }
  return columns;
}

Status read_json_row(std::string_view line, const std::vector<std::string>& columns,
                     CsvRecord* record) {
  PACELINE_ASSIGN(const std::vector<Member> members, read_members(line));
  record->cells.assign(columns.size(), {});
  record->unescaped.clear();
  for (const Member& member : members) {
    const auto column = std::ranges::find(columns, member.name);
    if (column == columns.end() || member.value == "null") continue;
    std::string_view& cell = record->cells[static_cast<size_t>(column - columns.begin())];
    if (member.value.starts_with('{') || member.value.starts_with('['))
      return fail(Code::kCorrupt, "column %s holds an object or a list",
                  quote_for_message(member.name).c_str());
    cell = member.value;
    if (!cell.starts_with('"')) continue;
    PACELINE_ASSIGN(std::string text, JsonReader(member.value).string());
    cell = record->unescaped.emplace_back(std::move(text));
  }
  return {};
}

}  // namespace paceline
