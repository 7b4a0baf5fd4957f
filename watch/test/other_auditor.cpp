// SPDX-License-Identifier: MIT
// Another tool that the loader puts into the program. It does nothing.

extern "C" unsigned la_version(unsigned version);

extern "C" __attribute__((visibility("default"))) unsigned la_version(unsigned version) { return version; }
