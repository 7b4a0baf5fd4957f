// SPDX-License-Identifier: MIT
#define CUEVENT_KIND not_ready
#define CUEVENT_IF_not_ready(...) __VA_ARGS__
#include "core/error_classes.inc"
