#include "runtime/trust/enrolment_code.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

EnrolmentCode random_code(Random& random) {
  EnrolmentCode code;
  for (auto* part : {&code.secret, &code.authority})
    std::ranges::generate(*part, [&] { return static_cast<std::byte>(random.next()); });
  return code;
}

TEST_SUITE_BEGIN("trust/enrolment_code");

TEST_CASE("a code comes back from its text, however it is typed") {
  Random random(seed(), 1);
  for (int i = 0; i < 200; ++i) {
    const EnrolmentCode code = random_code(random);
    std::string text = code_text(code);
    CHECK(text.size() == 33 + 7);
    CHECK(*parse_code(text) == code);
    std::string typed = " ";
    for (const char c : text) {
      if (c == '-') continue;
      typed += c == '0'   ? 'o'
               : c == '1' ? (i % 2 == 0 ? 'l' : 'I')
                          : static_cast<char>(std::tolower(c));
      if (random.below(5) == 0) typed += random.below(2) == 0 ? ' ' : '-';
    }
    CHECK(*parse_code(typed + "\r\n") == code);
  }
}

TEST_CASE("every wrong symbol and every swap of neighbours is found") {
  Random random(seed(), 2);
  std::string text = code_text(random_code(random));
  std::erase(text, '-');
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : std::string_view("0123456789ABCDEFGHJKMNPQRSTVWXYZ")) {
      std::string wrong = text;
      wrong[i] = c;
      CHECK(parse_code(wrong).has_value() == (wrong == text));
    }
    std::string swapped = text;
    if (i > 0) std::swap(swapped[i - 1], swapped[i]);
    CHECK(parse_code(swapped).has_value() == (swapped == text));
  }
}

TEST_CASE("what is no code is an error that does not repeat it") {
  Random random(seed(), 3);
  const std::string text = code_text(random_code(random));
  for (const std::string& wrong :
       {std::string(), std::string("-"), text.substr(1), text + "0", text + text, "U" + text}) {
    const Result<EnrolmentCode> parsed = parse_code(wrong);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code() == Code::kInvalidArgument);
    CHECK(parsed.error().message().find(text.substr(5, 8)) == std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
