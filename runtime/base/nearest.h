// The known name that a misspelled one most likely meant, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paceline {

// The name with the fewest edits (insert, delete, replace, swap of neighbours) from `given`; the
// first of several. Empty if nothing is close: more than a third of the letters, at least one,
// would change.
std::string_view nearest_name(std::string_view given, std::span<const std::string_view> names);

// "; did you mean 'units'?", else "; known: units, name". Empty without names.
std::string suggest_name(std::string_view given, std::span<const std::string_view> names);

}  // namespace paceline
