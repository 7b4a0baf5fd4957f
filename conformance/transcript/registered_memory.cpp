// SPDX-License-Identifier: MIT
// Memory of the program that the driver has pinned, and what streams store and await in it.

#include "scene.hpp"

#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace transcript {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t page = 4096;
constexpr unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

// Memory of a file without a name, as processes share it. It stays mapped until the end of the process,
// because the driver may still have its address.
class Pages {
public:
  explicit Pages(std::size_t count = 1)
      : bytes(count * page), file_(memfd_create("transcript", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) throw SetUpFailure("memfd_create");
    memory = static_cast<char*>(map());
  }
  ~Pages() { close(file_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* map() const {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (mapped == MAP_FAILED) throw SetUpFailure("mmap");
    return mapped;
  }
  CUresult pin(Lab& lab) const { return lab.cu.MemHostRegister(memory, bytes, flags); }

  const std::size_t bytes;
  char* memory = nullptr;

private:
  int file_;
};

CUdeviceptr address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }
std::uint64_t load(const void* memory) {
  return __atomic_load_n(static_cast<const std::uint64_t*>(memory), __ATOMIC_ACQUIRE);
}
void store(void* memory, std::uint64_t value) {
  __atomic_store_n(static_cast<std::uint64_t*>(memory), value, __ATOMIC_RELEASE);
}

void pin(Lab& lab) {
  const Api& cu = lab.cu;
  Pages pages(4);
  char* const memory = pages.memory;
  lab.is("null", cu.MemHostRegister(nullptr, page, flags));
  lab.is("no_bytes", cu.MemHostRegister(memory, 0, flags));
  {
    const Current none(lab, nullptr);
    lab.is("no_context", cu.MemHostRegister(memory, page, flags));
    lab.is("no_context.null", cu.MemHostRegister(nullptr, page, flags));
  }
  {
    Stream origin(lab);
    lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    {
      const Current none(lab, nullptr);
      lab.is("no_context.in_capture", cu.MemHostRegister(memory, page, flags));
    }
    lab.shows("no_context.in_capture.then_capture", capture_state(lab, origin));
    lab.is("no_context.in_capture.then_end", end_capture(lab, origin));
  }
  lab.is("two_pages_of_four", cu.MemHostRegister(memory + page, 2 * page, flags));
  lab.is("again", cu.MemHostRegister(memory + page, 2 * page, flags));
  lab.is("again.a_part", cu.MemHostRegister(memory + page, 64, flags));
  lab.is("again.a_later_part", cu.MemHostRegister(memory + 2 * page, page, flags));
  lab.is("overlaps_the_start", cu.MemHostRegister(memory, 2 * page, flags));
  lab.is("overlaps_the_end", cu.MemHostRegister(memory + 2 * page, 2 * page, flags));
  lab.is("contains", cu.MemHostRegister(memory, 4 * page, flags));
  {
    const Current other(lab, lab.second_context());
    lab.is("again.other_context", cu.MemHostRegister(memory + page, 2 * page, flags));
  }
  lab.is("before", cu.MemHostRegister(memory, page, flags));
  lab.is("behind", cu.MemHostRegister(memory + 3 * page, page, flags));
  Pages odd;
  lab.is("a_part_of_a_page", cu.MemHostRegister(odd.memory + 64, 64, flags));
  lab.is("a_part_of_a_page.unpin", cu.MemHostUnregister(odd.memory + 64));
}

void unpin(Lab& lab) {
  const Api& cu = lab.cu;
  Pages pages(2), never;
  char* const memory = pages.memory;
  lab.must(pages.pin(lab), "cuMemHostRegister");
  lab.is("never_pinned", cu.MemHostUnregister(never.memory));
  lab.is("null", cu.MemHostUnregister(nullptr));
  lab.is("allocated_by_the_driver", cu.MemHostUnregister(lab.word()));
  lab.is("inside", cu.MemHostUnregister(memory + 64));
  lab.is("second_page", cu.MemHostUnregister(memory + page));
  lab.is("last_byte", cu.MemHostUnregister(memory + 2 * page - 1));
  lab.is("free", cu.MemFreeHost(memory));
  {
    const Current none(lab, nullptr);
    lab.is("no_context.never_pinned", cu.MemHostUnregister(never.memory));
    lab.is("no_context.inside", cu.MemHostUnregister(memory + 64));
    lab.is("no_context", cu.MemHostUnregister(memory));
  }
  lab.is("again", cu.MemHostUnregister(memory));
  lab.is("pinned_again", pages.pin(lab));
  {
    const Current other(lab, lab.second_context());
    lab.is("other_context.inside", cu.MemHostUnregister(memory + 64));
    lab.is("other_context", cu.MemHostUnregister(memory));
  }
  lab.is("other_context.again", cu.MemHostUnregister(memory));
}

void device_pointer(Lab& lab) {
  const Api& cu = lab.cu;
  Pages pages, never;
  lab.must(pages.pin(lab), "cuMemHostRegister");
  CUdeviceptr found = 0;
  lab.is("start", cu.MemHostGetDevicePointer(&found, pages.memory, 0));
  lab.shows("start.is_the_address", found == address(pages.memory));
  lab.is("inside", cu.MemHostGetDevicePointer(&found, pages.memory + 64, 0));
  lab.shows("inside.is_the_address", found == address(pages.memory + 64));
  lab.is("last_byte", cu.MemHostGetDevicePointer(&found, pages.memory + page - 1, 0));
  lab.is("flags", cu.MemHostGetDevicePointer(&found, pages.memory, 1));
  lab.is("no_room", cu.MemHostGetDevicePointer(nullptr, pages.memory, 0));
  lab.is("null", cu.MemHostGetDevicePointer(&found, nullptr, 0));
  lab.is("never_pinned", cu.MemHostGetDevicePointer(&found, never.memory, 0));
  {
    const Current other(lab, lab.second_context());
    lab.is("other_context", cu.MemHostGetDevicePointer(&found, pages.memory, 0));
    lab.shows("other_context.is_the_address", found == address(pages.memory));
  }
  {
    const Current none(lab, nullptr);
    lab.is("no_context", cu.MemHostGetDevicePointer(&found, pages.memory, 0));
    lab.is("no_context.never_pinned", cu.MemHostGetDevicePointer(&found, never.memory, 0));
  }
  lab.must(cu.MemHostUnregister(pages.memory), "cuMemHostUnregister");
  lab.is("unpinned", cu.MemHostGetDevicePointer(&found, pages.memory, 0));
}

// Two mappings of one file, and streams of two contexts.
void shared(Lab& lab) {
  const Api& cu = lab.cu;
  Pages pages;
  void* const again = pages.map();
  lab.is("first", pages.pin(lab));
  lab.is("second", cu.MemHostRegister(again, page, flags));
  Stream waiting(lab), signalling(lab);
  Event after(lab);
  lab.is("wait", cu.StreamWaitValue64(waiting, address(again), 7, CU_STREAM_WAIT_VALUE_GEQ));
  cu.EventRecord(after, waiting);
  lab.is("before", cu.EventQuery(after));
  lab.is("write", cu.StreamWriteValue64(signalling, address(pages.memory), 7, 0));
  lab.is("synchronize", cu.StreamSynchronize(waiting));
  {
    const Current guard(lab, lab.second_context());
    Stream other(lab);
    lab.is("other_context.write", cu.StreamWriteValue64(other, address(again), 9, 0));
    lab.is("other_context.wait",
           cu.StreamWaitValue64(other, address(pages.memory), 9, CU_STREAM_WAIT_VALUE_GEQ));
    lab.is("other_context.synchronize", cu.StreamSynchronize(other));
  }
  lab.shows("value", load(pages.memory));
  lab.is("unpin.first", cu.MemHostUnregister(pages.memory));
  lab.is("write.second", cu.StreamWriteValue64(signalling, address(again), 11, 0));
  lab.is("synchronize.second", cu.StreamSynchronize(signalling));
  lab.shows("value.second", load(pages.memory));
  lab.is("unpin.second", cu.MemHostUnregister(again));
}

// The registration and the context that it was made in.
void end_of_context(Lab& lab) {
  const Api& cu = lab.cu;
  Pages pages;
  CUcontext short_lived = nullptr;
  lab.must(cu.CtxCreate(&short_lived, 0, lab.device), "cuCtxCreate");
  lab.is("pin", pages.pin(lab));
  lab.is("destroy_context", cu.CtxDestroy(short_lived));
  lab.restore();
  CUdeviceptr found = 0;
  lab.is("device_pointer", cu.MemHostGetDevicePointer(&found, pages.memory, 0));
  lab.is("unpin", cu.MemHostUnregister(pages.memory));
  Stream stream(lab);
  lab.is("write_then", cu.StreamWriteValue64(stream, address(pages.memory), 2, 0));
  lab.is("wait_then", cu.StreamWaitValue64(stream, address(pages.memory), 0, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("pin_again", pages.pin(lab));
  lab.is("write", cu.StreamWriteValue64(stream, address(pages.memory), 3, 0));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  lab.shows("value", load(pages.memory));
  lab.is("unpin_again", cu.MemHostUnregister(pages.memory));
}

void blocking(Lab& lab) {
  const Api& cu = lab.cu;
  Pages pages, other_pages, awaited;
  lab.must(pages.pin(lab), "cuMemHostRegister");
  lab.must(awaited.pin(lab), "cuMemHostRegister");
  {
    Stream stream(lab);
    Gate gate(lab, stream);
    Background pin(lab, [&] { return other_pages.pin(lab); });
    lab.shows("pin.returns_while_a_stream_is_held", pin.returns_within(1s));
    Background unpin(lab, [&] { return cu.MemHostUnregister(pages.memory); });
    lab.shows("unpin.returns_while_a_stream_is_held", unpin.returns_within(1s));
    gate.open();
    lab.is("pin", pin.join());
    lab.is("unpin", unpin.join());
  }
  lab.must(pages.pin(lab), "cuMemHostRegister");
  {
    const Current guard(lab, lab.second_context());
    Stream stream(lab);
    Gate gate(lab, stream);
    Background unpin(lab, [&] { return cu.MemHostUnregister(pages.memory); });
    lab.shows("unpin.returns_while_a_stream_of_another_context_is_held", unpin.returns_within(1s));
    gate.open();
    lab.is("unpin.another_context", unpin.join());
  }
  {
    Stream stream(lab);
    lab.must(cu.StreamWaitValue64(stream, address(awaited.memory), 1, CU_STREAM_WAIT_VALUE_GEQ), "wait");
    Background unpin(lab, [&] { return cu.MemHostUnregister(awaited.memory); });
    lab.shows("unpin.returns_while_a_stream_waits_for_it", unpin.returns_within(1s));
    store(awaited.memory, 1);
    lab.is("unpin.awaited", unpin.join());
    lab.is("synchronize", cu.StreamSynchronize(stream));
  }
}

CUresult relaxed(Lab& lab, const std::function<CUresult()>& call) {
  return in_mode(lab, CU_STREAM_CAPTURE_MODE_RELAXED, call);
}

void in_capture(Lab& lab) {
  const Api& cu = lab.cu;
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    Pages pages, other;
    probe(lab, name + ".pin", mode.value, [&](Scene&) { return pages.pin(lab); });
    probe(lab, name + ".pin.relaxed_thread", mode.value,
          [&](Scene&) { return relaxed(lab, [&] { return other.pin(lab); }); });
    probe(lab, name + ".pin.null", mode.value,
          [&](Scene&) { return cu.MemHostRegister(nullptr, page, flags); });
    probe(lab, name + ".pin.again", mode.value, [&](Scene&) { return other.pin(lab); });
    CUdeviceptr found = 0;
    probe(lab, name + ".device_pointer", mode.value,
          [&](Scene&) { return cu.MemHostGetDevicePointer(&found, other.memory, 0); });
    probe(lab, name + ".unpin.inside", mode.value,
          [&](Scene&) { return cu.MemHostUnregister(other.memory + 64); });
    probe(lab, name + ".write", mode.value,
          [&](Scene& s) { return cu.StreamWriteValue64(s.origin, address(other.memory), 1, 0); });
    probe(lab, name + ".wait", mode.value, [&](Scene& s) {
      return cu.StreamWaitValue64(s.origin, address(other.memory), 1, CU_STREAM_WAIT_VALUE_GEQ);
    });
  }
}

// Unpinning waits for all streams, so no other stream is held here.
void unpin_in_capture(Lab& lab) {
  const Api& cu = lab.cu;
  const auto ask = [&](const std::string& name, CUstreamCaptureMode mode, bool pins,
                       const std::function<CUresult(const std::function<CUresult()>&)>& on) {
    Pages pages;
    Stream origin(lab);
    if (!pins) lab.must(pages.pin(lab), "cuMemHostRegister");
    lab.must(cu.StreamBeginCapture(origin, mode), "begin");
    lab.is(name, on([&] { return pins ? pages.pin(lab) : cu.MemHostUnregister(pages.memory); }));
    lab.shows(name + ".then_capture", capture_state(lab, origin));
    lab.is(name + ".then_end", end_capture(lab, origin));
    cu.MemHostUnregister(pages.memory);
  };
  for (const Mode& mode : capture_modes) {
    const std::string name = mode.name;
    Pages pages;
    Stream origin(lab);
    lab.must(pages.pin(lab), "cuMemHostRegister");
    lab.must(cu.StreamBeginCapture(origin, mode.value), "begin");
    lab.is(name + ".never_pinned", cu.MemHostUnregister(pages.memory + page));
    lab.shows(name + ".never_pinned.then_capture", capture_state(lab, origin));
    lab.is(name, cu.MemHostUnregister(pages.memory));
    lab.shows(name + ".then_capture", capture_state(lab, origin));
    lab.is(name + ".then_end", end_capture(lab, origin));
    lab.is(name + ".again", cu.MemHostUnregister(pages.memory));
    const auto elsewhere = [&](const auto& call) { return on_other_thread(lab, call); };
    const auto elsewhere_relaxed = [&](const auto& call) {
      return on_other_thread(lab, [&] { return relaxed(lab, call); });
    };
    ask(name + ".other_thread", mode.value, false, elsewhere);
    ask(name + ".other_thread_relaxed", mode.value, false, elsewhere_relaxed);
    ask(name + ".pin.other_thread", mode.value, true, elsewhere);
    ask(name + ".pin.other_thread_relaxed", mode.value, true, elsewhere_relaxed);
  }
  ask("global.relaxed_thread", CU_STREAM_CAPTURE_MODE_GLOBAL, false,
      [&](const auto& call) { return relaxed(lab, call); });
}

// A graph of a wait and a write, launched twice.
void replay(Lab& lab) {
  const Api& cu = lab.cu;
  Pages gate, pages;
  lab.must(gate.pin(lab), "cuMemHostRegister");
  lab.must(pages.pin(lab), "cuMemHostRegister");
  Stream stream(lab);
  CUgraph graph = nullptr;
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("wait", cu.StreamWaitValue64(stream, address(gate.memory), 1, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("write", cu.StreamWriteValue64(stream, address(pages.memory), 5, 0));
  lab.must(cu.StreamEndCapture(stream, &graph), "end");
  lab.shows("nodes", node_types(lab, graph));
  CUgraphExec exec = make_exec(lab, graph);
  lab.is("launch", cu.GraphLaunch(exec, stream));
  std::this_thread::sleep_for(20ms);
  lab.is("before_the_gate", cu.StreamQuery(stream));
  lab.shows("before_the_gate.value", load(pages.memory));
  store(gate.memory, 1);
  lab.is("synchronize", cu.StreamSynchronize(stream));
  lab.shows("value", load(pages.memory));
  store(pages.memory, 9);
  lab.is("launch_again", cu.GraphLaunch(exec, stream));
  lab.is("synchronize_again", cu.StreamSynchronize(stream));
  lab.shows("value_again", load(pages.memory)); // lowered
  cu.GraphExecDestroy(exec);
  cu.GraphDestroy(graph);
  cu.MemHostUnregister(gate.memory);
  cu.MemHostUnregister(pages.memory);
}

} // namespace

std::vector<Scenario> registered_memory_scenarios() {
  return {{"registered_memory.pin", pin, Place::child},
          {"registered_memory.unpin", unpin, Place::child},
          {"registered_memory.device_pointer", device_pointer},
          {"registered_memory.shared", shared},
          {"registered_memory.end_of_context", end_of_context, Place::child},
          {"registered_memory.blocking", blocking, Place::child},
          {"registered_memory.in_capture", in_capture, Place::child},
          {"registered_memory.unpin_in_capture", unpin_in_capture, Place::child},
          {"registered_memory.replay", replay}};
}

} // namespace transcript
