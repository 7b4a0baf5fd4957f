// SPDX-License-Identifier: MIT
// A library with thread-local variables that need a place from the start of the program, as some memory
// allocators have them.

extern "C" char* storage();

namespace {
thread_local char bytes[4096] __attribute__((tls_model("initial-exec")));
}

extern "C" __attribute__((visibility("default"))) char* storage() { return bytes; }
