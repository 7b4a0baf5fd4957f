// SPDX-License-Identifier: MIT
#define CUEVENT_KIND unsupported
#define CUEVENT_IF_unsupported(...) __VA_ARGS__
#include "core/error_classes.inc"
