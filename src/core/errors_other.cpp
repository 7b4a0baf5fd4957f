// SPDX-License-Identifier: MIT
#define CUEVENT_KIND other
#define CUEVENT_IF_other(...) __VA_ARGS__
#include "core/error_classes.inc"
