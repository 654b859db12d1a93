// `edge_server show-what-leaves`: what a board of a run sends, field by field, and what it never
// sends. Names and sizes come from the wire's schema and from the codecs themselves.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace paceline {

// What a field of a message that a board sends tells; null: nothing here knows.
const char* meaning_of_field(std::string_view message, std::string_view field);

// Of the run that `run_file` describes, and as text to print. Errors: those of the file.
Result<std::string> show_what_leaves(const std::string& run_file);

}  // namespace paceline
