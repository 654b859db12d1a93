#include "runtime/base/utf8.h"

#include <doctest/doctest.h>

namespace paceline {

TEST_SUITE("base/utf8") {
  TEST_CASE("is_utf8: takes one to four bytes a character, refuses all that RFC 3629 refuses") {
    for (const char* text :
         {"", "ascii", "\xC2\xB0", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"})
      CHECK(is_utf8(text));
    for (const char* text : {"\xB0", "\xC2", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                             "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xFF", "a\xC2z"})
      CHECK_FALSE(is_utf8(text));
  }
}

}  // namespace paceline
