# paceline_test(NAME LABEL unit|contract|golden|simulate|system LAYERS layers... SOURCES files...
#               [LIBRARIES targets...])
#
# One doctest program, one ctest entry per program and label. Programs take --seed=N for random tests and
# print the seed in use (tests/support/seed.h); each is run with a time limit.
enable_testing()
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
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABEL}" TIMEOUT ${TEST_TIMEOUT}
    SKIP_REGULAR_EXPRESSION "skipped: no data")
endfunction()
