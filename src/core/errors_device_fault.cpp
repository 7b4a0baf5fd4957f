// SPDX-License-Identifier: MIT
#define CUEVENT_KIND device_fault
#define CUEVENT_IF_device_fault(...) __VA_ARGS__
#include "core/error_classes.inc"
