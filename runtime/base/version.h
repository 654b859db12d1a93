// What this build is called. PACELINE_VERSION comes from the top CMakeLists.txt.
#pragma once

namespace paceline {

inline constexpr const char* kVersionText = "paceline " PACELINE_VERSION;

}  // namespace paceline
