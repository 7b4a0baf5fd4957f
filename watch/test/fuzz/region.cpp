// SPDX-License-Identifier: MIT
// What a watched process shows of itself, from any bytes: the words of its region, and their values.
#include "require.hpp"

#include "report/moment_reader.hpp"
#include "report/process_rules.hpp"
#include "report/reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using fuzz::require;

namespace {

constexpr std::uint64_t record_count = 64;
constexpr std::size_t size_of_region = watch::region_size(record_count);

/// The parts of a region, so that few bytes reach all of them.
constexpr std::size_t parts[] = {
    0,
    offsetof(watch::Region, written),
    offsetof(watch::Region, threads),
    offsetof(watch::Region, streams),
    offsetof(watch::Region, names),
    offsetof(watch::Region, modules),
    offsetof(watch::Region, launches),
    offsetof(watch::Region, name_text),
    offsetof(watch::Region, path_text),
    offsetof(watch::Region, frames),
    offsetof(watch::Region, records),
};

/// One region is used again: making a new one takes longer than reading it.
struct Memory {
  Memory() : file(memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    require(file >= 0 && ftruncate(file, size_of_region) == 0, "there is memory");
    require(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "it can be sealed");
    void* const place = mmap(nullptr, size_of_region, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    require(place != MAP_FAILED, "it can be mapped");
    bytes = static_cast<unsigned char*>(place);
  }
  int file;
  unsigned char* bytes;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Memory memory;
  // Zeros again, without touching what is zero.
  require(fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size_of_region) == 0,
          "zeros");
  auto& region = *reinterpret_cast<watch::Region*>(memory.bytes);
  region.version = watch::protocol_version;
  region.record_mask = record_count - 1;
  region.process = static_cast<std::uint32_t>(getpid());
  // Each 8 bytes: a part, the distance in it in words of 4 bytes, the number of words, and their value.
  for (; size >= 8; data += 8, size -= 8) {
    std::uint32_t value = 0;
    std::memcpy(&value, data + 4, sizeof value);
    const std::size_t word = data[1] + 256U * (data[2] % 16U);
    const std::size_t begin = parts[data[0] % std::size(parts)] + word * 4;
    for (std::size_t at = begin; at < begin + (data[3] % 8U + 1) * 4 && at + 4 <= size_of_region; at += 4)
      std::memcpy(memory.bytes + at, &value, sizeof value);
  }
  try {
    watch::CallFile file("/proc/self/fd/" + std::to_string(memory.file), watch::CallFile::Mode::again);
    require(file.records() <= watch::record_limit, "the number of records is bounded");
    watch::World world;
    watch::OrderBlindness blind;
    watch::add_rules(world, {true, true, file.fork(), watch::OrderOptions{true, true, &blind}},
                     [](const watch::Finding&) {});
    std::size_t seen = 0;
    const auto see = [&](const watch::Call& call) {
      ++seen;
      require(file.stack(call.stack).size() <= watch::depth_limit, "a stack is bounded");
      for (const std::string& frame : file.python_stack(call.stack))
        require(frame.size() <= watch::text_limit, "the Python frames are bounded");
      world.see(call);
    };
    file.read(see);
    file.read(see, true);
    require(seen <= 2 * (record_count + watch::launch_ring_limit * watch::launch_limit),
            "each call is seen at most twice");
    for (const watch::Call& call : file.unfinished())
      world.see(call);
    world.end(true);
    require(file.program().size() <= watch::longest_path, "a path is bounded");
    static_cast<void>(file.has_loaded("libc10"));
    static_cast<void>(file.module_at(0x1000));
    const watch::ProcessState state(file);
    require(state.moment().streams.size() <= watch::stream_limit, "the streams are bounded");
    require(state.kernel_name(1).size() <= watch::longest_name + 100, "a name is bounded");
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with("/proc/self/fd/"), "an error names the file");
  }
  return 0;
}
