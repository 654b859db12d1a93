# paceline_test(NAME LABEL unit|contract|golden|simulate|system|fleet|gate LAYERS layers... SOURCES files...
#               [LIBRARIES targets...] [TIMEOUT seconds])
#
# One doctest program, one ctest entry. Programs take --seed=N for random tests and print the seed in use
# (tests/support/seed.h); each is run with a time limit. Labels choose what runs where (./dev test):
#   unit, contract, golden   everywhere, also under the emulators and with clang
#   simulate, system         on the build machine; system starts real processes, one test at a time
#   fleet                    a system test with workers built for the Arm boards, run after those builds
#   gate                     convergence over many minutes, run by ./dev gates only
# Whatever links the network layer or starts processes also gets the label threads: the thread sanitizer's share.
# The target tests_LABEL builds one label's programs.
foreach(label unit contract golden simulate system fleet gate threads)
  add_custom_target(tests_${label})
endforeach()
# Filled by tests/fuzz; exists everywhere so that the presets can name it.
if(NOT TARGET fuzz)
  add_custom_target(fuzz)
endif()

add_library(paceline_test_main OBJECT ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
target_link_libraries(paceline_test_main PUBLIC paceline_flags dep_doctest)

function(paceline_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT" "LAYERS;SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE paceline_test_main dep_doctest)
  foreach(layer ${TEST_LAYERS})
    target_link_libraries(${name} PRIVATE paceline_${layer})
  endforeach()
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})

  set(labels ${TEST_LABEL})
  if(TEST_LABEL STREQUAL "system" OR "net" IN_LIST TEST_LAYERS OR "worker" IN_LIST TEST_LAYERS
     OR "server" IN_LIST TEST_LAYERS)
    list(APPEND labels threads)
  endif()
  foreach(label ${labels})
    add_dependencies(tests_${label} ${name})
  endforeach()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  # A test without its data prints "skipped: no data" and passes; ctest's own skip rule is not used, because it
  # would also hide a failure of the same program. ./dev test counts and names the skipped ones.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${TEST_TIMEOUT})
  if(TEST_LABEL STREQUAL "system" OR TEST_LABEL STREQUAL "fleet")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
