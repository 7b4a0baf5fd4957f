# SPDX-License-Identifier: MIT
# Each part of the project says what it needs, and the first call makes it.
include(FetchContent)
FetchContent_Declare(cuevent SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/cuevent OVERRIDE_FIND_PACKAGE)
find_package(cuevent 0.1 CONFIG REQUIRED)
find_package(cuevent CONFIG REQUIRED COMPONENTS sim)
