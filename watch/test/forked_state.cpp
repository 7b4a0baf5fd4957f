// SPDX-License-Identifier: MIT
// What a forked child has of the auditor's state: nothing of ClearedByFork, and all of State.
#include "auditor/state.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

const auto* bytes_of(const void* object) { return static_cast<const unsigned char*>(object); }

bool is_all(unsigned char value, const void* object, std::size_t size) {
  return std::all_of(bytes_of(object), bytes_of(object) + size,
                     [&](unsigned char byte) { return byte == value; });
}

/// As a busy process would leave it.
void fill() {
  watch::state.options.features = watch::probes;
  watch::state.some_library = reinterpret_cast<const link_map*>(&watch::state);
  watch::state.file.last_generation = 7;
  std::memset(static_cast<void*>(watch::cleared_by_fork), 0xFF, sizeof(watch::ClearedByFork));
}

int in_child(const std::vector<unsigned char>& kept) {
  if (!is_all(0, watch::cleared_by_fork, sizeof(watch::ClearedByFork))) return 1;
  if (std::memcmp(&watch::state, kept.data(), kept.size()) != 0) return 2;
  return 0;
}

} // namespace

int main() {
  if (!is_all(0, &watch::state, sizeof watch::state))
    return std::puts("the state begins with other than zeros"), 1;
  if (!watch::prepare_state()) return std::puts("there is no memory"), 1;
  if (!is_all(0, watch::cleared_by_fork, sizeof(watch::ClearedByFork)))
    return std::puts("the memory begins with other than zeros"), 1;
  fill();
  const std::vector<unsigned char> kept(bytes_of(&watch::state),
                                        bytes_of(&watch::state) + sizeof watch::state);
  const pid_t child = fork();
  if (child == 0) _exit(in_child(kept));
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0)
    std::printf("the child has ended with %d: 1 for what it has kept, 2 for what it has lost\n",
                WEXITSTATUS(status));
  if (!is_all(0xFF, watch::cleared_by_fork, sizeof(watch::ClearedByFork)))
    return std::puts("the parent has lost its own"), 1;
  return status == 0 ? 0 : 1;
}
