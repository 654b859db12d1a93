# paceline_layer(NAME DEPENDS lower layers... SOURCES files... LIBRARIES third-party targets...)
#
# One static library per folder. DEPENDS is the arrow list of docs/architecture.md; tests/tidy holds the
# #include lines against it. Third-party LIBRARIES stay private: their headers never leave the .cpp files.
function(paceline_layer name)
  cmake_parse_arguments(LAYER "" "" "DEPENDS;SOURCES;LIBRARIES" ${ARGN})
  add_library(paceline_${name} STATIC ${LAYER_SOURCES})
  target_link_libraries(paceline_${name} PUBLIC paceline_flags)
  foreach(lower ${LAYER_DEPENDS})
    target_link_libraries(paceline_${name} PUBLIC paceline_${lower})
  endforeach()
  target_link_libraries(paceline_${name} PRIVATE ${LAYER_LIBRARIES})
endfunction()
