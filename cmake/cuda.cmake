# The CUDA backend, where nvcc is found: in PATH, in CUDA_HOME/bin or in /usr/local/cuda/bin. Sets
#   REDOUBT_CUDA_OBJECTS    compiled .cu files, for whoever links the library's objects
#   REDOUBT_CUDA_LIBRARIES  what they need: the runtime, static, and what that needs
# and, where it is not found, leaves both empty: src/cuda/absent.c takes the place of all else in src/cuda.
set(REDOUBT_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where nvcc is found), ON, OFF")
set(cuda_wanted ${REDOUBT_CUDA})
if(cuda_wanted STREQUAL "AUTO")
  if(REDOUBT_SANITIZE OR CMAKE_CROSSCOMPILING)
    set(cuda_wanted OFF)
  elseif("$ENV{REDOUBT_REQUIRE_CUDA}" STREQUAL "1")
    set(cuda_wanted ON)
  endif()
endif()
set(REDOUBT_CUDA_OBJECTS)
set(REDOUBT_CUDA_LIBRARIES)
set(nvcc)
if(NOT cuda_wanted STREQUAL "OFF")
  find_program(REDOUBT_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
  mark_as_advanced(REDOUBT_NVCC)
  if(REDOUBT_NVCC)
    set(nvcc ${REDOUBT_NVCC})
  elseif(NOT cuda_wanted STREQUAL "AUTO")
    message(FATAL_ERROR "CUDA is asked for (REDOUBT_CUDA=ON or REDOUBT_REQUIRE_CUDA=1), but there is no nvcc in PATH, "
                        "in CUDA_HOME/bin or in /usr/local/cuda/bin: install CUDA 12.4 or later, or take them back")
  endif()
endif()
if(nvcc)
  get_filename_component(real ${nvcc} REALPATH)
  get_filename_component(cuda_root ${real}/../.. ABSOLUTE)
  find_path(REDOUBT_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include REQUIRED)
  find_library(REDOUBT_CUDART cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/lib REQUIRED)
  mark_as_advanced(REDOUBT_CUDA_INCLUDE REDOUBT_CUDART)
  set(REDOUBT_CUDA_LIBRARIES ${REDOUBT_CUDART} pthread ${CMAKE_DL_LIBS} rt)
  # Machine code for sm_80 and sm_90a, and PTX for what comes after; no C++ runtime: the C compiler links it all.
  # Machine code is packed as PTX is: a seventh of its size.
  set(flags -std=c++17 -O3 -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include -D_GNU_SOURCE -Xptxas -v
      -Xfatbin -compress-all -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-fno-exceptions,-fno-rtti)
  # For the GPU that tests make of a processor (tests/emulated_gpu): it reads the PTX of the very kernels that ship.
  option(REDOUBT_EMULATED_GPU "Keep the PTX of sm_90a in the objects, and build what runs it on a processor" OFF)
  set(hopper sm_90a)
  if(REDOUBT_EMULATED_GPU)
    set(hopper [sm_90a,compute_90a])
  endif()
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/cuda/*.cu)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
  foreach(source ${cuda_sources})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
    set(spills OFF)
    set(contraction)
    set(targets -gencode arch=compute_80,code=[sm_80,compute_80])
    if(source MATCHES "/cuda/sm90/") # instructions that no other has, later ones neither
      set(targets)
    endif()
    if(source MATCHES "/cuda/ops/") # the CPU's functions, and their bits
      set(contraction -fmad=false)
    endif()
    if(name MATCHES "_inject$")
      set(spills ON)
    endif()
    add_custom_command(OUTPUT ${object} DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/nvcc.cmake DEPFILE ${object}.d
      COMMAND ${CMAKE_COMMAND} "-DLAUNCHER=${CMAKE_C_COMPILER_LAUNCHER}" -DNVCC=${nvcc} -DSPILLS=${spills}
              "-DARGS=${flags};${targets};-gencode;arch=compute_90a,code=${hopper};${contraction};-MD;-MF;${object}.d;-MT;${object};-c;${source};-o;${object}"
              -P ${PROJECT_SOURCE_DIR}/cmake/nvcc.cmake
      COMMENT "nvcc ${name}.cu" VERBATIM)
    list(APPEND REDOUBT_CUDA_OBJECTS ${object})
  endforeach()
  set_source_files_properties(${REDOUBT_CUDA_OBJECTS} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  # What takes longest begins first: no core is idle at the end.
  set(in_turn ${REDOUBT_CUDA_OBJECTS})
  foreach(name gemm_wgmma_deep voted_wgmma_f16 gemm_mma_inject gemm_wgmma_inject gemm_wgmma_bf16 ops rows gemm_wgmma_f16
          gemm_wgmma_more_inject fused fused_wgmma)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
    if(object IN_LIST in_turn)
      list(REMOVE_ITEM in_turn ${object})
      list(PREPEND in_turn ${object})
    endif()
  endforeach()
  add_custom_target(redoubt_cuda_objects DEPENDS ${in_turn}) # compiled once for all who link them
  message(STATUS "CUDA: ${nvcc}")
endif()
