# Compiler settings of every target. Equal bytes need -ffp-contract=off everywhere; no file is ever built
# with -ffast-math or for a CPU above the baseline, except kernel sets that are chosen at run time.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(PACELINE_STRICT "Treat warnings as errors" ON)
option(PACELINE_STATIC "Link every program statically" OFF)
option(PACELINE_FUZZ "Instrument everything for libFuzzer and link the fuzz targets with it (clang)" OFF)
set(PACELINE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

find_program(PACELINE_CCACHE ccache)
if(PACELINE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${PACELINE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PACELINE_CCACHE})
endif()

# Every target links this. It also brings the one header-only library that the base layer's headers need.
add_library(paceline_flags INTERFACE)
target_link_libraries(paceline_flags INTERFACE dep_expected)
target_include_directories(paceline_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(paceline_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -ffp-contract=off -fno-math-errno
  # Messages name runtime/..., wherever the tree stands; the same tree gives the same program.
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Guesses made after inlining: which of them fire changes with the optimisation level, and version 12 finds
  # overflows inside std::vector::resize and std::string. The sanitizers see the real ones.
  target_compile_options(paceline_flags INTERFACE
    -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  if(PACELINE_SANITIZE)
    target_compile_options(paceline_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(PACELINE_STRICT)
  target_compile_options(paceline_flags INTERFACE -Werror)
endif()
if(PACELINE_SANITIZE)
  target_compile_options(paceline_flags INTERFACE -fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(paceline_flags INTERFACE -fsanitize=${PACELINE_SANITIZE})
endif()
if(PACELINE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "PACELINE_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++ or --preset fuzz")
  endif()
  target_compile_options(paceline_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(PACELINE_STATIC)
  # Only what is called gets in; the map says what that was (./dev bench footprint).
  target_compile_options(paceline_flags INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(paceline_flags INTERFACE -static -Wl,--gc-sections
    -Wl,-Map=${CMAKE_BINARY_DIR}/$<TARGET_PROPERTY:NAME>.map)
endif()
