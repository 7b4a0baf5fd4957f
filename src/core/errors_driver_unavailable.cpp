// SPDX-License-Identifier: MIT
#define CUEVENT_KIND driver_unavailable
#define CUEVENT_IF_driver_unavailable(...) __VA_ARGS__
#include "core/error_classes.inc"
