// SPDX-License-Identifier: MIT
// A library whose variable the loader keeps in memory of its own for each thread.

namespace {

thread_local long words[4];

}

extern "C" void* thread_local_words() {
  words[0] = 1;
  return words;
}
