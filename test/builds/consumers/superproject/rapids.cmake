# SPDX-License-Identifier: MIT
list(APPEND CMAKE_MODULE_PATH ${rapids-cmake-dir})
include(rapids-cmake)
include(rapids-cpm)
include(rapids-export)
rapids_cpm_init()
rapids_cpm_find(cuevent 0.1.0 GLOBAL_TARGETS cuevent::cuevent_static cuevent::cuevent_shared
  BUILD_EXPORT_SET runtime INSTALL_EXPORT_SET runtime
  CPM_ARGS SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/cuevent OPTIONS "cuevent_KITS scheduling")
