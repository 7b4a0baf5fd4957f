// SPDX-License-Identifier: MIT
#define CUEVENT_KIND capture
#define CUEVENT_IF_capture(...) __VA_ARGS__
#include "core/error_classes.inc"
