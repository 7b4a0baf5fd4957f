# SPDX-License-Identifier: MIT
# Sets cuevent_DRIVER_HEADERS, the folder of cuda.h and cudaTypedefs.h, unless -Dcuevent_DRIVER_HEADERS=DIR
# sets it. Looks in this order: the toolkit that the project already uses, CUDA_HOME or CUDA_PATH, any
# toolkit that CMake finds, and the folder in cuevent_driver_headers_before if it still exists.
find_path(cuevent_DRIVER_HEADERS cudaTypedefs.h
  HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH
  PATH_SUFFIXES include NO_DEFAULT_PATH
  DOC "The folder of cuda.h and cudaTypedefs.h")
if(NOT cuevent_DRIVER_HEADERS)
  find_package(CUDAToolkit QUIET)
  find_path(cuevent_DRIVER_HEADERS cudaTypedefs.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS}
    PATHS /usr/local/cuda /opt/cuda "${cuevent_driver_headers_before}"
    PATH_SUFFIXES include)
endif()
set(cuevent_no_driver_headers "cuda.h was not found. Install the CUDA toolkit, or name its folder: \
-Dcuevent_DRIVER_HEADERS=DIR")
