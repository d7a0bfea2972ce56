# A build for 64-bit Arm by Debian's cross compiler, its tests run by qemu:
#     cmake -S . -B build/aarch64 --toolchain cmake/aarch64.cmake -DREDOUBT_SYSROOT=FOLDER
# FOLDER: the libraries for that machine, unpacked (scripts/test does it).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES REDOUBT_SYSROOT)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${REDOUBT_SYSROOT})

set(CMAKE_FIND_ROOT_PATH ${REDOUBT_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH) # onnx.proto is no machine's
set(ENV{PKG_CONFIG_LIBDIR} ${REDOUBT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${REDOUBT_SYSROOT})
set(CMAKE_SKIP_RPATH ON) # qemu finds them
# What the libraries need in turn
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${REDOUBT_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_SHARED_LINKER_FLAGS_INIT ${CMAKE_EXE_LINKER_FLAGS_INIT})
