# What the toolchain files share: programs come from the host; libraries and headers never do.
set(CMAKE_FIND_ROOT_PATH /usr/${CMAKE_LIBRARY_ARCHITECTURE})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# A dynamic arm64 program with NNG's threads hangs under the emulator; static ones run, and need no sysroot.
set(PACELINE_STATIC ON CACHE BOOL "Link every program statically")
