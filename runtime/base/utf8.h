// Whether text may go where only UTF-8 may: names of columns, classes and workers come from
// outside.
#pragma once

#include <string_view>

namespace paceline {

// By RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace paceline
