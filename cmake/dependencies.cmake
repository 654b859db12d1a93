# The one place that names third-party packages and versions. docs/dependencies.md says why each.
set(PACELINE_DEPS "$ENV{HOME}/.cache/paceline/deps" CACHE PATH "Folder with the unpacked development packages")
if(NOT CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
endif()
set(PACELINE_DEP_LIB ${PACELINE_DEPS}/${CMAKE_LIBRARY_ARCHITECTURE}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
set(PACELINE_DEP_INCLUDE ${PACELINE_DEPS}/${CMAKE_LIBRARY_ARCHITECTURE}/usr/include)

find_package(Threads REQUIRED)
find_program(PACELINE_FLATC flatc REQUIRED)

add_library(dep_nng INTERFACE)
target_include_directories(dep_nng SYSTEM INTERFACE ${PACELINE_DEP_INCLUDE})
target_link_libraries(dep_nng INTERFACE ${PACELINE_DEP_LIB}/libnng.a ${PACELINE_DEP_LIB}/libmbedtls.a
  ${PACELINE_DEP_LIB}/libmbedx509.a ${PACELINE_DEP_LIB}/libmbedcrypto.a Threads::Threads)

add_library(dep_xnnpack INTERFACE)
target_link_libraries(dep_xnnpack INTERFACE ${PACELINE_DEP_LIB}/libmicrokernels-prod.a)

add_library(dep_zlib INTERFACE)
target_include_directories(dep_zlib SYSTEM INTERFACE ${PACELINE_DEP_INCLUDE})
target_link_libraries(dep_zlib INTERFACE ${PACELINE_DEP_LIB}/libz.a)

add_library(dep_flatbuffers INTERFACE)
add_library(dep_doctest INTERFACE)
add_library(dep_tomlplusplus INTERFACE)
add_library(dep_cli11 INTERFACE)
add_library(dep_json INTERFACE)
