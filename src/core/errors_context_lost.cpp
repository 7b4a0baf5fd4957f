// SPDX-License-Identifier: MIT
#define CUEVENT_KIND context_lost
#define CUEVENT_IF_context_lost(...) __VA_ARGS__
#include "core/error_classes.inc"
