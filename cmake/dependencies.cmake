# The one place that names third-party packages and versions. docs/dependencies.md says why each.
#
# ./dev reads the same set() lines, so a value must stay on its line or between its quotes.

# Development packages of one Debian release for every target, also on an older host: "NAME VERSION", where
# the version may be a prefix because security updates move mbedTLS's last digits.
set(PACELINE_DEP_SUITE "trixie")
set(PACELINE_DEP_NNG "libnng-dev 1.10.1-2")
set(PACELINE_DEP_MBEDTLS "libmbedtls-dev 3.6.")
set(PACELINE_DEP_XNNPACK "libxnnpack-dev 0.0~git20241108.4ea82e5-2")
set(PACELINE_DEP_ZLIB "zlib1g-dev 1:1.3.dfsg+really1.3.1-1")

# Tools and header-only libraries of the host: Debian 12's and 13's versions are both in use.
set(PACELINE_HOST_BUILD "g++ cmake ninja-build flatbuffers-compiler libflatbuffers-dev libexpected-dev
  libtomlplusplus-dev libcli11-dev nlohmann-json3-dev")
set(PACELINE_HOST_DEMO "dataset-fashion-mnist")
set(PACELINE_HOST_CROSS_arm64 "g++-aarch64-linux-gnu")
set(PACELINE_HOST_CROSS_armhf "g++-arm-linux-gnueabihf")
set(PACELINE_HOST_CROSS_amd64 "g++-x86-64-linux-gnu")
set(PACELINE_HOST_TEST "doctest-dev clang clang-format libclang-rt-dev ccache python3 qemu-user
  systemd dataset-fashion-mnist libonnx-testdata python3-onnx python3-numpy")
set(PACELINE_HOST_FUZZ "clang libclang-rt-dev doctest-dev")
set(PACELINE_HOST_PEER_TORCH "python3-torch libopenblas0-pthread")
set(PACELINE_HOST_FORMAT "clang-format")
set(PACELINE_HOST_TIDY "clang-tidy")

option(PACELINE_SYSTEM_DEPS "Take NNG, mbedTLS, zlib and XNNPACK from the system, not from PACELINE_DEPS" OFF)

if(NOT CMAKE_LIBRARY_ARCHITECTURE)
  message(FATAL_ERROR "The compiler names no multi-arch triplet: configure with "
    "-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu (or a file of toolchains/)")
endif()
find_package(Threads REQUIRED)
find_program(PACELINE_FLATC flatc REQUIRED)

# The folder's name is the hash of the lines above: other versions never meet an old folder.
string(SHA256 deps_key "${PACELINE_DEP_SUITE}\n${PACELINE_DEP_NNG}\n${PACELINE_DEP_MBEDTLS}\n\
${PACELINE_DEP_XNNPACK}\n${PACELINE_DEP_ZLIB}\n")
string(SUBSTRING ${deps_key} 0 12 deps_key)
if(DEFINED ENV{XDG_CACHE_HOME})
  set(deps_default "$ENV{XDG_CACHE_HOME}/paceline/deps/${deps_key}")
else()
  set(deps_default "$ENV{HOME}/.cache/paceline/deps/${deps_key}")
endif()
set(PACELINE_DEPS "${deps_default}" CACHE PATH "Folder with the unpacked development packages")
set(deps_root ${PACELINE_DEPS}/${CMAKE_LIBRARY_ARCHITECTURE}/usr)

# Adds the imported static library NAME; LIBRARIES are the archives and targets that it calls in turn, so that
# CMake keeps the link order. An OPTIONAL one that is missing adds no target.
function(paceline_archive name)
  cmake_parse_arguments(ARCHIVE "OPTIONAL" "" "LIBRARIES" ${ARGN})
  if(PACELINE_SYSTEM_DEPS)
    find_library(PACELINE_ARCHIVE_${name} NAMES lib${name}.a ${name})
    set(path ${PACELINE_ARCHIVE_${name}})
  else()
    set(path ${deps_root}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/lib${name}.a)
  endif()
  if(NOT EXISTS "${path}")
    if(ARCHIVE_OPTIONAL)
      return()
    endif()
    message(FATAL_ERROR "lib${name}.a for ${CMAKE_LIBRARY_ARCHITECTURE} is not in ${PACELINE_DEPS}. "
      "Run ./dev setup, or configure with -DPACELINE_SYSTEM_DEPS=ON to take the system's")
  endif()
  add_library(${name} UNKNOWN IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${path})
  target_link_libraries(${name} INTERFACE ${ARCHIVE_LIBRARIES})
endfunction()

# Adds the interface target dep_NAME: the headers' folder and the archives that go with HEADER.
function(paceline_dependency name header)
  add_library(dep_${name} INTERFACE)
  if(PACELINE_SYSTEM_DEPS)
    find_path(PACELINE_INCLUDE_${name} ${header} REQUIRED)
    target_include_directories(dep_${name} SYSTEM INTERFACE ${PACELINE_INCLUDE_${name}})
  else()
    target_include_directories(dep_${name} SYSTEM INTERFACE ${deps_root}/include)
  endif()
  target_link_libraries(dep_${name} INTERFACE ${ARGN})
endfunction()

# Archives built for a newer glibc call three functions that an older one lacks.
include(CheckFunctionExists)
add_library(paceline_glibc_shim STATIC ${CMAKE_CURRENT_LIST_DIR}/glibc_shim.c)
foreach(name strlcpy __isoc23_strtol __isoc23_strtoull)
  check_function_exists(${name} PACELINE_HAVE_${name})
  if(NOT PACELINE_HAVE_${name})
    target_compile_definitions(paceline_glibc_shim PRIVATE PACELINE_NEED_${name})
  endif()
endforeach()

paceline_archive(mbedcrypto LIBRARIES paceline_glibc_shim)
paceline_archive(mbedx509 LIBRARIES mbedcrypto)
paceline_archive(mbedtls LIBRARIES mbedx509 mbedcrypto)
paceline_archive(nng LIBRARIES mbedtls paceline_glibc_shim Threads::Threads)
paceline_archive(z)
paceline_archive(microkernels-prod OPTIONAL)

paceline_dependency(mbedtls mbedtls/ssl.h mbedtls)
paceline_dependency(nng nng/nng.h nng dep_mbedtls)
paceline_dependency(zlib zlib.h z)

# The bare micro-kernels are an internal interface without public headers. Where the archive is missing,
# PACELINE_HAVE_XNNPACK stays undefined and the own kernels serve.
add_library(dep_xnnpack INTERFACE)
if(TARGET microkernels-prod)
  target_link_libraries(dep_xnnpack INTERFACE microkernels-prod)
  target_compile_definitions(dep_xnnpack INTERFACE PACELINE_HAVE_XNNPACK=1)
endif()

# A header-only library lives in the host's include folder, which a cross compiler must not search (it would
# find the host's C library there). So each gets a folder of its own in the build tree, holding one link.
function(paceline_header_dependency name header folder)
  find_path(PACELINE_INCLUDE_${name} ${header} NO_CMAKE_FIND_ROOT_PATH PATHS /usr/include)
  add_library(dep_${name} INTERFACE)
  if(NOT PACELINE_INCLUDE_${name})
    message(STATUS "${header} was not found: targets that need dep_${name} will not compile. ./dev setup installs it")
    return()
  endif()
  set(own ${CMAKE_BINARY_DIR}/headers/${name})
  file(MAKE_DIRECTORY ${own})
  file(CREATE_LINK ${PACELINE_INCLUDE_${name}}/${folder} ${own}/${folder} SYMBOLIC)
  target_include_directories(dep_${name} SYSTEM INTERFACE ${own})
endfunction()

paceline_header_dependency(expected tl/expected.hpp tl)
paceline_header_dependency(flatbuffers flatbuffers/flatbuffers.h flatbuffers)
paceline_header_dependency(tomlplusplus toml++/toml.h toml++)
paceline_header_dependency(cli11 CLI/CLI.hpp CLI)
paceline_header_dependency(json nlohmann/json.hpp nlohmann)
paceline_header_dependency(doctest doctest/doctest.h doctest)
