// SPDX-License-Identifier: MIT
#include "auditor/pending_sources.hpp"

#include "auditor/host_guards.hpp"
#include "auditor/kernel_calls.hpp"
#include "auditor/looker.hpp"
#include "auditor/memory.hpp"
#include "auditor/probes.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"
#include "auditor/tick_rate.hpp"
#include "protocol/ticks.hpp"

#include <algorithm>
#include <cstring>
#include <linux/futex.h>
#include <sys/uio.h>

namespace watch {

namespace {

/// Measured on an H100: the driver reads a pinned source of 1 KiB when the copy runs. Smaller ones were not
/// measured.
constexpr std::uint64_t least_bytes = 1024;
constexpr std::uint64_t pieces_limit = 16; // of a source that is longer than all of them together
constexpr std::uint64_t piece_size = sizeof(PendingSources::bytes) / pieces_limit;
constexpr unsigned looks_at_once = 16;               // before a call of the program
constexpr std::uint64_t time_between_waits_us = 100; // of looks before waits

PendingSources& sources() { return cleared_by_fork->sources; }

/// Which bytes are compared: all of a short source, else pieces that are spread over it.
unsigned pieces_of(const Source& source, iovec (&pieces)[pieces_limit]) {
  const std::uint64_t all = source.width * source.rows;
  const std::uint64_t count = std::min(pieces_limit, (all + piece_size - 1) / piece_size);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at =
        all <= count * piece_size ? i * piece_size : (all - piece_size) / (count - 1) * i;
    const std::uint64_t row = at / source.width, within = at % source.width;
    const std::uint64_t length = std::min({piece_size, source.width - within, all - at});
    pieces[i] = {reinterpret_cast<void*>(source.begin + row * source.pitch + within), length};
  }
  return static_cast<unsigned>(count);
}

/// The caller holds the lock of PinnedMemory. False if they cannot be read.
bool read_bytes(const Source& source, std::uint64_t& hash) {
  if (is_target_guarded(source.begin, source.end())) return false;
  PendingSources& all = sources();
  iovec pieces[pieces_limit];
  const unsigned count = pieces_of(source, pieces);
  iovec to{all.bytes, sizeof all.bytes};
  // The side that is called local is read as any buffer of a call is, also if it is a device's mapping.
  const long length = syscall(SYS_process_vm_writev, process_number(), pieces, count, &to, 1L, 0L);
  std::uint64_t expected = 0;
  for (unsigned i = 0; i < count; ++i)
    expected += pieces[i].iov_len;
  if (length < 0 || static_cast<std::uint64_t>(length) != expected) {
    if (length < 0) all.unreadable.store(1, std::memory_order_relaxed);
    return false;
  }
  hash = expected;
  for (std::uint64_t at = 0; at < expected; at += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, all.bytes + at, std::min<std::uint64_t>(sizeof word, expected - at));
    hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15U;
    hash ^= hash >> 29U;
  }
  return true;
}

void remove(PendingSource& place) { // under the lock of PinnedMemory
  give_back_source(place.number.exchange(0, std::memory_order_acq_rel));
  sources().count.fetch_sub(1, std::memory_order_relaxed);
}

/// The caller is in relaxed capture mode.
enum class Begun : std::uint8_t { no, perhaps, not_asked };
Begun has_begun(const PendingSource& place, std::uint64_t number, Stream& stream, std::uint64_t handle,
                std::uint64_t probe) {
  const TryLocked lock(stream.lock, 0);
  if (!lock) return Begun::not_asked;
  // The events live until whoever forgets the stream gets the lock.
  if (stream.handle.load(std::memory_order_seq_cst) != handle ||
      place.number.load(std::memory_order_seq_cst) != number)
    return Begun::perhaps;
  const ProbedStream& told = shown(stream);
  if (told.reached.load(std::memory_order_relaxed) >= probe ||
      told.recorded.load(std::memory_order_relaxed) < probe)
    return Begun::perhaps;
  return query_probe(stream, probe) == CUDA_ERROR_NOT_READY ? Begun::no : Begun::perhaps;
}

void tell_change(std::uint64_t number, const CallData* noticed) {
  CallData record{};
  record.entry = memory_entry;
  record.count = 4;
  record.thread = noticed != nullptr ? noticed->thread : thread_number();
  record.context = noticed != nullptr ? noticed->context : 0;
  record.words[0] = static_cast<std::uint64_t>(MemoryPart::source_changed);
  record.words[1] = number;
  record.words[2] = noticed != nullptr ? noticed->entry : 0xFFFF;
  record.words[3] = noticed != nullptr ? noticed->stack : 0;
  watch::record(record);
}

/// First the bytes, and then whether the copy has begun: if it has not, it had not when the bytes were read.
void look_at(PendingSource& place, const CallData* noticed) {
  PinnedMemory& pinned = cleared_by_fork->pinned;
  std::uint64_t number = 0, handle = 0, probe = 0, bytes = 0;
  Stream* stream = nullptr;
  bool is_readable = false, has_changed = false;
  {
    const Locked lock(pinned.lock);
    number = place.number.load(std::memory_order_relaxed);
    if (number == 0) return;
    stream = place.stream;
    handle = place.handle;
    probe = place.probe;
    is_readable = read_bytes(place.source, bytes);
    has_changed = is_readable && bytes != place.bytes;
  }
  const Begun begun = has_begun(place, number, *stream, handle, probe);
  if (begun == Begun::not_asked || (begun == Begun::no && is_readable && !has_changed)) return;
  {
    const Locked lock(pinned.lock);
    if (place.number.load(std::memory_order_relaxed) != number) return;
    remove(place);
  }
  if (begun == Begun::no && has_changed) tell_change(number, noticed); // which may wait for the reader
}

/// Looks at those that `is_wanted` chooses, from this thread of the program.
template <class IsWanted>
void look_from_program(const CallData& call, const Library& library, IsWanted is_wanted) {
  if (library.probing.exchange_mode == nullptr) return;
  const OwnCalls own(library);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (library.probing.exchange_mode(&mode) != CUDA_SUCCESS) return;
  unsigned looked = 0;
  for (PendingSource& place : sources().places)
    if (place.number.load(std::memory_order_relaxed) != 0 && looked < looks_at_once && is_wanted(place)) {
      look_at(place, &call);
      ++looked;
    }
  library.probing.exchange_mode(&mode);
}

/// Puts it into a free place. Returns its number, or 0 if it cannot be looked at.
std::uint64_t put(const SourceProbe& probe) {
  PendingSources& all = sources();
  const Locked lock(cleared_by_fork->pinned.lock);
  std::uint64_t bytes = 0;
  if (!is_pinned(probe.source.begin, probe.source.end())) return 0;
  const auto free = std::find_if(std::begin(all.places), std::end(all.places), [](const auto& place) {
    return place.number.load(std::memory_order_relaxed) == 0;
  });
  if (free == std::end(all.places) || !read_bytes(probe.source, bytes)) return 0;
  free->source = probe.source;
  free->bytes = bytes;
  free->stream = probe.stream;
  free->handle = probe.stream->handle.load(std::memory_order_relaxed);
  free->probe = probe.number;
  const std::uint64_t number = all.last.fetch_add(1, std::memory_order_relaxed) + 1;
  free->number.store(number, std::memory_order_release);
  all.count.fetch_add(1, std::memory_order_seq_cst);
  return number;
}

void wake_looker() {
  start_looker();
  if (sources().sleeps.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &region->look_wanted, FUTEX_WAKE, 1, nullptr, nullptr, 0L);
}

Source row(std::uint64_t begin, std::uint64_t size) { return {begin, size, size, 1}; }

} // namespace

Source source_of(CUdeviceptr, CUdeviceptr from, std::size_t size, CUstream) { return row(from, size); }
Source source_of(CUdeviceptr, const void* from, std::size_t size, CUstream) {
  return row(reinterpret_cast<std::uintptr_t>(from), size);
}
Source source_of(CUarray, std::size_t, const void* from, std::size_t size, CUstream) {
  return row(reinterpret_cast<std::uintptr_t>(from), size);
}
Source source_of(const CUDA_MEMCPY2D* copy, CUstream) {
  if (copy == nullptr ||
      (copy->srcMemoryType != CU_MEMORYTYPE_HOST && copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED))
    return {};
  const std::uint64_t base = copy->srcMemoryType == CU_MEMORYTYPE_HOST
                                 ? reinterpret_cast<std::uintptr_t>(copy->srcHost)
                                 : copy->srcDevice;
  const std::uint64_t pitch = copy->srcPitch == 0 ? copy->WidthInBytes : copy->srcPitch;
  return {base + copy->srcY * pitch + copy->srcXInBytes, copy->WidthInBytes, pitch, copy->Height};
}

SourceProbe begin_source(Thread& thread, unsigned library, const CallData& call, const Source& source) {
  if (source.width == 0 || source.rows == 0 || source.width * source.rows < least_bytes ||
      cleared_by_fork->captures.are_active())
    return {};
  {
    const Locked lock(cleared_by_fork->pinned.lock);
    if (!is_pinned(source.begin, source.end())) return {};
  }
  if (sources().count.load(std::memory_order_relaxed) != 0)
    look_from_program(call, state.libraries[library], [&](const PendingSource& place) {
      return place.source.begin < source.end() && source.begin < place.source.end();
    });
  SourceProbe probe{source};
  if (sources().count.load(std::memory_order_relaxed) < PendingSources::limit &&
      sources().unreadable.load(std::memory_order_relaxed) == 0)
    probe.stream = record_probe(thread, library, call, probe.number);
  return probe;
}

std::uint64_t note_source(const SourceProbe& probe, const CallData& call) {
  if (probe.source.width == 0) return 0;
  std::uint64_t number = 0;
  if (probe.stream != nullptr) {
    const Library& library = state.libraries[probe.stream->library];
    const OwnCalls own(library);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool can_ask = library.probing.exchange_mode(&mode) == CUDA_SUCCESS;
    bool has_begun = false; // if somebody else asks about the stream, a look will tell
    if (const TryLocked lock(probe.stream->lock, 0); can_ask && lock)
      has_begun = probe.stream->events[0] == nullptr ||
                  query_probe(*probe.stream, probe.number) != CUDA_ERROR_NOT_READY;
    if (can_ask) library.probing.exchange_mode(&mode);
    if (can_ask && has_begun) return 0;
    if (can_ask) number = put(probe);
  }
  tell_number(call, MemoryPart::source, number);
  if (number != 0) wake_looker();
  return number;
}

void look_at_sources_before(const CallData& call) {
  PendingSources& all = sources();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t now = ticks();
  if (now < all.next_look.load(std::memory_order_relaxed)) return;
  all.next_look.store(now + ticks_in(time_between_waits_us), std::memory_order_relaxed);
  for (unsigned library = 0; library < library_limit; ++library)
    look_from_program(call, state.libraries[library],
                      [&](const PendingSource& place) { return place.stream->library == library; });
}

bool look_at_sources(bool (&is_relaxed)[library_limit]) {
  for (PendingSource& place : sources().places) {
    if (place.number.load(std::memory_order_acquire) == 0) continue;
    bool& relaxed = is_relaxed[place.stream->library];
    relaxed = relaxed || relax(place.stream->library);
    if (relaxed) look_at(place, nullptr);
  }
  return sources().count.load(std::memory_order_seq_cst) != 0;
}

void forget_sources_in(std::uint64_t begin, std::uint64_t end) {
  for (PendingSource& place : sources().places)
    if (place.number.load(std::memory_order_relaxed) != 0 && place.source.begin < end &&
        begin < place.source.end())
      remove(place);
}

void forget_sources_of(const Stream& stream) {
  if (sources().count.load(std::memory_order_seq_cst) == 0) return;
  const Locked lock(cleared_by_fork->pinned.lock);
  for (PendingSource& place : sources().places)
    if (place.number.load(std::memory_order_relaxed) != 0 && place.stream == &stream) remove(place);
}

} // namespace watch
