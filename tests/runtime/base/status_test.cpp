#include "runtime/base/status.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>

using namespace paceline;

namespace {

Status odd_is_refused(int value) {
  if (value % 2 != 0) return fail(Code::kRefused, "%d is odd", value);
  return {};
}

Result<int> half(int value) {
  PACELINE_TRY(odd_is_refused(value));
  return value / 2;
}

Result<std::unique_ptr<int>> quarter_of(int value) {
  PACELINE_ASSIGN(const int once, half(value));
  PACELINE_ASSIGN(const int twice, half(once));
  return std::make_unique<int>(twice);
}

Status both_even(int a, int b) {
  PACELINE_ASSIGN(const int first, half(a));
  PACELINE_ASSIGN(const int second, half(b));
  return first + second > 0 ? Status() : Status(fail(Code::kNotFound, "nothing"));
}

}  // namespace

TEST_SUITE("base/status") {
  TEST_CASE("a default status is ok and says so; an error says its code and its message") {
    CHECK(Status().ok());
    CHECK(Status().to_string() == "ok");
    const Status status =
        fail(Code::kCorrupt, "layer %d: payload %zu bytes, need %zu", 3, size_t{17}, size_t{20});
    CHECK_FALSE(status.ok());
    CHECK(status.code() == Code::kCorrupt);
    CHECK(status.to_string() == "corrupt: layer 3: payload 17 bytes, need 20");
  }

  TEST_CASE("every code has a name of its own") {
    std::set<std::string> names;
    const int last = static_cast<int>(Code::kUnsupported);
    for (int i = 0; i <= last; ++i) names.insert(code_name(static_cast<Code>(i)));
    CHECK(names.size() == static_cast<size_t>(last) + 1);
    CHECK(names.count("unknown") == 0);
  }

  TEST_CASE("macros pass values on, move-only ones too, and the first error unchanged") {
    CHECK(**quarter_of(12) == 3);
    const Result<std::unique_ptr<int>> early = quarter_of(7);
    REQUIRE_FALSE(early.has_value());
    CHECK(early.error().to_string() == "refused: 7 is odd");
    CHECK(quarter_of(6).error().message() == "3 is odd");
    CHECK(both_even(2, 4).ok());
    CHECK(both_even(2, 5).message() == "5 is odd");
    CHECK(both_even(0, 0).code() == Code::kNotFound);
  }

  TEST_CASE("formatted text has the length it needs, from nothing to many kilobytes") {
    CHECK(format_text("%s", "").empty());
    const std::string whole(100'000, 'x');
    CHECK(format_text("%s!", whole.c_str()) == whole + "!");
  }
}
