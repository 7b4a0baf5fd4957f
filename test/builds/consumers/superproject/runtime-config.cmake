# SPDX-License-Identifier: MIT
include(CMakeFindDependencyMacro)
find_dependency(cuevent CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/runtime-targets.cmake)
