// SPDX-License-Identifier: MIT
// Random programs through cuevent: programs_on_cuevent LIBRARY RECORDING DIFFERENCES FIRST-LAST.
// Each call of a program that has an event goes through DriverEvent. The program has to get the
// recorded answers, so cuevent has to make the same driver calls, and its own calls must disturb
// nothing. For each call:
// - cuevent returns what the driver returned, or refuses the call with a documented result. After a
//   refusal the plain call is made, because the program goes on from there.
// - The current context is unchanged.
// After a program, cuevent has destroyed as many events as it created.
#include "comparison.hpp"
#include "interpreter.hpp"
#include "recording.hpp"
#include "watchdog.hpp"

#include "../transcript/start_again.hpp"

#include <cuevent/driver_event.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <unistd.h>

namespace {

using conformance::Api;
using cuevent::Context;
using cuevent::Driver;
using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::RecordFlags;
using cuevent::WaitFlags;

// Threads of a program act one at a time, so none of this needs a lock.
Api plain;
std::optional<Driver> driver;
std::map<CUevent, DriverEvent> events;
int mistakes = 0;

/// What the driver was asked about one event.
struct Asked {
  CUevent event = nullptr; // any, if null
  int calls = 0;
  CUresult result = CUDA_SUCCESS;
} asked;
long created = 0, destroyed = 0;

template <class Argument>
bool is_asked(Argument argument) {
  if constexpr (std::is_same_v<Argument, CUevent>) return argument == asked.event;
  return false;
}

/// A driver function that notes its calls. `number` tells functions of one type apart.
template <int number, class Function>
struct Noted;
template <int number, class... Arguments>
struct Noted<number, CUresult(Arguments...)> {
  static inline CUresult(CUDAAPI* original)(Arguments...) = nullptr;
  static CUresult CUDAAPI call(Arguments... arguments) {
    const CUresult result = original(arguments...);
    if (number == 0 && result == CUDA_SUCCESS) ++created;
    if (number == 1 && result == CUDA_SUCCESS) ++destroyed;
    if (asked.event != nullptr && !(is_asked(arguments) || ...)) return result; // for another event
    ++asked.calls;
    asked.result = result;
    return result;
  }
  static void note(void** function) {
    original = reinterpret_cast<CUresult(CUDAAPI*)(Arguments...)>(*function);
    *function = reinterpret_cast<void*>(call);
  }
};

CUresult CUDAAPI find(const char* name, void** function, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status) {
  const CUresult result = plain.GetProcAddress(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("cuEventCreate")) Noted<0, CUresult(CUevent*, unsigned)>::note(function);
  if (is("cuEventDestroy")) Noted<1, CUresult(CUevent)>::note(function);
  if (is("cuEventRecord")) Noted<2, CUresult(CUevent, CUstream)>::note(function);
  if (is("cuEventRecordWithFlags")) Noted<3, CUresult(CUevent, CUstream, unsigned)>::note(function);
  if (is("cuEventQuery")) Noted<4, CUresult(CUevent)>::note(function);
  if (is("cuEventSynchronize")) Noted<5, CUresult(CUevent)>::note(function);
  if (is("cuEventElapsedTime") && version >= 12080)
    Noted<6, CUresult(float*, CUevent, CUevent)>::note(function);
  if (is("cuStreamWaitEvent")) Noted<7, CUresult(CUstream, CUevent, unsigned)>::note(function);
  if (is("cuCtxRecordEvent")) Noted<8, CUresult(CUcontext, CUevent)>::note(function);
  if (is("cuCtxWaitEvent")) Noted<9, CUresult(CUcontext, CUevent)>::note(function);
  return result;
}

void report(const char* call, const char* what, CUresult result) {
  ++mistakes;
  std::printf("%s: %s (%d)\n", call, what, static_cast<int>(result));
}

/// Makes a call through cuevent, and compares it with what the driver was asked.
template <class Ours, class Plain>
CUresult both(const char* call, CUevent event, const Ours& ours, const Plain& plainly) {
  CUcontext before = nullptr, after = nullptr;
  plain.CtxGetCurrent(&before);
  asked = {.event = event};
  const CUresult result = ours();
  plain.CtxGetCurrent(&after);
  if (before != after) report(call, "the current context has changed", result);
  if (asked.calls == 0) {
    // An empty event, a context that is empty or is not the event's. Before a wait for an
    // interprocess event, cuevent asks whether the stream captures, which can be refused.
    const bool documented = result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT ||
                            result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!documented) report(call, "refused without a reason that is documented", result);
    return plainly();
  }
  if (asked.calls != 1) report(call, "the driver was asked more than once", result);
  if (result != asked.result) report(call, "not what the driver answered", result);
  return result;
}

/// The event with that handle, or an empty one.
DriverEvent& event_of(CUevent handle) {
  static DriverEvent empty;
  const auto found = events.find(handle);
  return found != events.end() ? found->second : empty;
}

Context current() {
  Context context;
  static_cast<void>(Context::try_current(context, *driver));
  return context;
}

bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/// Bits that mean something else to cuevent than to the driver: `timing`, `external_in_capture`.
bool has_own_bits(unsigned flags) { return (flags & 0xf00) != 0; }

CUresult CUDAAPI create(CUevent* out, unsigned flags) {
  if (out == nullptr || has_own_bits(flags)) return plain.EventCreate(out, flags);
  DriverEvent event;
  const EventFlags ours = EventFlags(flags & ~unsigned{CU_EVENT_DISABLE_TIMING}) |
                          ((flags & CU_EVENT_DISABLE_TIMING) != 0 ? EventFlags::none : EventFlags::timing);
  const CUresult result = both(
      "cuEventCreate", nullptr, [&] { return DriverEvent::try_create(event, current(), ours); },
      [&] { return plain.EventCreate(out, flags); });
  if (!event) return result;
  *out = event.native_handle();
  events.emplace(*out, std::move(event));
  return result;
}

CUresult CUDAAPI destroy(CUevent handle) {
  const CUresult result = both(
      "cuEventDestroy", handle, [&] { return event_of(handle).try_close(); },
      [&] { return plain.EventDestroy(handle); });
  if (result == CUDA_SUCCESS) events.erase(handle);
  return result;
}

CUresult record(const char* call, CUevent handle, CUstream stream, unsigned flags) {
  if (has_own_bits(flags)) return plain.EventRecordWithFlags(handle, stream, flags);
  DriverEvent& event = event_of(handle);
  const auto how = RecordFlags(flags);
  return both(
      call, handle,
      [&] {
        return is_default(stream) ? event.try_record(current(), stream, how) : event.try_record(stream, how);
      },
      [&] { return plain.EventRecordWithFlags(handle, stream, flags); });
}

CUresult CUDAAPI record_plainly(CUevent event, CUstream stream) {
  return record("cuEventRecord", event, stream, 0);
}
CUresult CUDAAPI record_with_flags(CUevent event, CUstream stream, unsigned flags) {
  return record("cuEventRecordWithFlags", event, stream, flags);
}

CUresult CUDAAPI wait(CUstream stream, CUevent handle, unsigned flags) {
  if (has_own_bits(flags)) return plain.StreamWaitEvent(stream, handle, flags);
  const DriverEvent& event = event_of(handle);
  const auto how = WaitFlags(flags);
  return both(
      "cuStreamWaitEvent", handle,
      [&] {
        return is_default(stream) ? event.try_wait(current(), stream, how) : event.try_wait(stream, how);
      },
      [&] { return plain.StreamWaitEvent(stream, handle, flags); });
}

CUresult CUDAAPI query(CUevent handle) {
  return both(
      "cuEventQuery", handle, [&] { return event_of(handle).try_query(); },
      [&] { return plain.EventQuery(handle); });
}

CUresult CUDAAPI synchronize(CUevent handle) {
  return both(
      "cuEventSynchronize", handle, [&] { return event_of(handle).try_synchronize(); },
      [&] { return plain.EventSynchronize(handle); });
}

CUresult CUDAAPI elapsed(float* milliseconds, CUevent start, CUevent end) {
  DriverEvent::Milliseconds time{};
  return both(
      "cuEventElapsedTime", start, [&] { return event_of(start).try_elapsed_time(time, event_of(end)); },
      [&] { return plain.EventElapsedTime(milliseconds, start, end); });
}

CUresult CUDAAPI record_context(CUcontext context, CUevent handle) {
  return both(
      "cuCtxRecordEvent", handle,
      [&] { return event_of(handle).try_record_context(Context::borrow(context, *driver)); },
      [&] { return plain.CtxRecordEvent(context, handle); });
}

CUresult CUDAAPI wait_context(CUcontext context, CUevent handle) {
  return both(
      "cuCtxWaitEvent", handle,
      [&] { return event_of(handle).try_wait_context(Context::borrow(context, *driver)); },
      [&] { return plain.CtxWaitEvent(context, handle); });
}

Api through_cuevent() {
  Api api = plain;
  api.EventCreate = create;
  api.EventDestroy = destroy;
  api.EventRecord = record_plainly;
  api.EventRecordWithFlags = record_with_flags;
  api.StreamWaitEvent = wait;
  api.EventQuery = query;
  api.EventSynchronize = synchronize;
  api.EventElapsedTime = elapsed;
  api.CtxRecordEvent = record_context;
  api.CtxWaitEvent = wait_context;
  return api;
}

} // namespace

int main(int argc, char** argv) {
  const auto seeds = argc == 5 || argc == 6 ? conformance::parse_seeds(argv[4]) : std::nullopt;
  if (!seeds) {
    std::fprintf(stderr, "usage: %s LIBRARY RECORDING DIFFERENCES SEEDS\n", argv[0]);
    return 2;
  }
  mistakes = argc == 6 ? std::atoi(argv[5]) : 0; // of the processes before, see below
  plain = Api::load(argv[1]);
  driver.emplace(find);
  const Api api = through_cuevent();
  conformance::Watchdog watchdog;
  conformance::Interpreter interpreter(api, argv[1], watchdog);
  std::ifstream recording(argv[2]), differences(argv[3]);
  std::set<std::uint64_t> known; // the simulated driver answers these in another way, with a reason
  for (std::string line; std::getline(differences, line);)
    known.insert(std::strtoull(line.c_str(), nullptr, 10));
  int run = 0;
  for (std::string line; std::getline(recording, line);) {
    const auto recorded = conformance::parse_recorded_line(line);
    if (!recorded || !seeds->contain(recorded->seed) || known.count(recorded->seed) != 0) continue;
    const auto program = conformance::program_of(recorded->seed);
    std::string answers;
    const int before = mistakes;
    interpreter.run(program, [&](const std::string& answer) { answers += answer; });
    const auto different = conformance::differences(recorded->answers, answers);
    if (!different.empty()) {
      ++mistakes;
      std::puts(conformance::explanation(program, recorded->answers, different, "recorded").c_str());
    }
    if (created != destroyed || !events.empty()) report("at the end", "events are left", CUDA_SUCCESS);
    if (mistakes != before)
      std::printf("in the program of seed %llu\n", static_cast<unsigned long long>(recorded->seed));
    ++run;
    if (interpreter.clean()) continue;
    // The driver is left with a capture that nobody can end: another process does the rest.
    const std::string rest = std::to_string(recorded->seed + 1) + "-" + std::to_string(seeds->last);
    const std::string so_far = std::to_string(mistakes);
    std::fflush(stdout);
    if (recorded->seed == seeds->last) continue;
    std::vector<std::string> words = transcript::this_program();
    words.insert(words.end(), {argv[1], argv[2], argv[3], rest, so_far});
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
  }
  std::printf("%d programs in the last process, %d mistakes in all\n", run, mistakes);
  std::fflush(stdout);
  _exit(mistakes == 0 && run > 0 ? 0 : 1);
}
