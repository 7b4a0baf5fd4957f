// SPDX-License-Identifier: MIT
// What the programs that test probes share: they look into the memory that the auditor shows to the reader.
#pragma once

#include "programs.hpp"
#include "protocol/protocol.hpp"
#include "protocol/ticks.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <linux/futex.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::_Exit(3);
}

/// Null if this process is not watched.
inline watch::Region* find_region() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(".calls") != std::string::npos || line.find("memfd:cuevent-watch") != std::string::npos)
      return reinterpret_cast<watch::Region*>(std::stoull(line, nullptr, 16));
  return nullptr;
}

inline watch::Region& region() {
  watch::Region* const found = find_region();
  require(found != nullptr, "the process is watched");
  return *found;
}

/// Wants a look, and waits until it is done. False if there is none within the time.
inline bool look(watch::Region& region, int patience_ms = 5000) {
  const std::uint32_t wanted = region.look_wanted.fetch_add(1) + 1;
  syscall(SYS_futex, &region.look_wanted, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  for (int i = 0; i < patience_ms && region.look_done.load() < wanted; ++i)
    usleep(1000);
  return region.look_done.load() >= wanted;
}

/// The stream as the reader sees it, or null.
inline watch::ProbedStream* probed(watch::Region& region, CUstream stream) {
  for (watch::ProbedStream& probed : region.streams)
    if (probed.used.load() == 1 && probed.handle == reinterpret_cast<std::uintptr_t>(stream)) return &probed;
  return nullptr;
}

/// Takes the complete records, so that the process never waits for a reader. A record that is only begun must
/// not be taken: its writer would think that the ring is full, and wait for ten seconds.
inline std::vector<watch::CallData> take_records(watch::Region& region) {
  std::vector<watch::CallData> calls;
  for (std::uint64_t next = region.read.load(); next < region.written.load(); region.read.store(++next)) {
    const watch::Record& record = region.records[next & region.record_mask];
    if (record.stamp.load(std::memory_order_acquire) != static_cast<std::uint32_t>(next) + 1) break;
    calls.push_back(record.call);
  }
  return calls;
}

/// Holds a stream until it is opened.
class Gate {
public:
  Gate() {
    void* memory = nullptr;
    expect(cuMemHostAlloc(&memory, sizeof(std::uint32_t), 0));
    value_ = static_cast<volatile std::uint32_t*>(memory);
    *value_ = 0;
  }
  void close(CUstream stream) const {
    expect(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(value_), 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  void open() const { *value_ = 1; }

private:
  volatile std::uint32_t* value_;
};
