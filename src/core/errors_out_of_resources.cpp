// SPDX-License-Identifier: MIT
#define CUEVENT_KIND out_of_resources
#define CUEVENT_IF_out_of_resources(...) __VA_ARGS__
#include "core/error_classes.inc"
