# 64-bit Arm boards (Raspberry Pi 3 and later, Jetson). Debian packages: g++-aarch64-linux-gnu, qemu-user.
# The baseline is plain ARMv8.0-A: a Pi 4 has neither its atomics of 8.1 nor the dot product.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_FLAGS_INIT -march=armv8-a)
set(CMAKE_CXX_FLAGS_INIT -march=armv8-a)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
