// SPDX-License-Identifier: MIT
#define CUEVENT_KIND usage
#define CUEVENT_IF_usage(...) __VA_ARGS__
#include "core/error_classes.inc"
