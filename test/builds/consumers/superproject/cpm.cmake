# SPDX-License-Identifier: MIT
include(${CPM_DOWNLOAD_LOCATION})
CPMAddPackage(NAME cuevent VERSION 0.1.0 SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/cuevent
  OPTIONS "cuevent_KITS scheduling")
find_package(cuevent 0.1 CONFIG REQUIRED) # as another part of the project does
