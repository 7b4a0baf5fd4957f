// SPDX-License-Identifier: MIT
// What the driver logs about a refused call, and how its callbacks behave.

#include "scene.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#if CUDA_VERSION >= 12090

namespace transcript {
namespace {

using namespace std::chrono_literals;

constexpr unsigned unknown = 0x100;

// Receives the lines of the driver's log while it lives.
class Log {
public:
  explicit Log(Lab& lab) : lab_(lab) {
    lab.must(lab.cu.LogsRegisterCallback(take, this, &handle_), "register a callback");
  }
  ~Log() { lab_.cu.LogsUnregisterCallback(handle_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Makes the call, and shows what the driver logs meanwhile, without this number of the machine.
  void says(std::string_view name, const std::function<CUresult()>& call, const std::string& number = "") {
    text_.clear();
    call();
    if (const auto at = text_.find(number); !number.empty() && at != std::string::npos)
      text_.replace(at, number.size(), "...");
    lab_.shows(name, text_.empty() ? "nothing" : text_);
  }

private:
  static void CUDA_CB take(void* self, CUlogLevel level, char* message, size_t length) {
    std::string& text = static_cast<Log*>(self)->text_;
    if (!text.empty()) text += " | ";
    if (level != CU_LOG_LEVEL_ERROR) text += "level " + std::to_string(static_cast<int>(level)) + ": ";
    for (const char one : std::string_view(message, length))
      text += one == '\n' ? "\\n" : one == '\0' ? "\\0" : one == ';' ? "," : std::string(1, one);
    if (message[length] != '\0') text += " (no null)";
  }

  Lab& lab_;
  CUlogsCallbackHandle handle_ = nullptr;
  std::string text_;
};

CUevent event_of_second_context(Lab& lab) {
  const Current guard(lab, lab.second_context());
  return Event(lab).release();
}

void events(Lab& lab) {
  const Api& cu = lab.cu;
  Log log(lab);
  Stream stream(lab), held(lab);
  Event event(lab), timed(lab, CU_EVENT_DEFAULT), never(lab, CU_EVENT_DEFAULT),
      pending(lab, CU_EVENT_DEFAULT);
  Event shared(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  CUevent const other = event_of_second_context(lab);
  CUevent made = nullptr;
  float ms = 0;
  lab.must(cu.EventRecord(timed, stream), "record");
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const Gate gate(lab, held);
  lab.must(cu.EventRecord(pending, held), "record");

  log.says("record.success", [&] { return cu.EventRecord(event, stream); });
  log.says("record.null", [&] { return cu.EventRecord(nullptr, stream); });
  log.says("record.other_context", [&] { return cu.EventRecord(other, stream); });
  log.says("record.flags.null", [&] { return cu.EventRecordWithFlags(nullptr, stream, 0); });
  log.says("record.flags.other_context", [&] { return cu.EventRecordWithFlags(other, stream, 0); });
  log.says("record.flags.unknown", [&] { return cu.EventRecordWithFlags(event, stream, unknown); });
  log.says("record.flags.external", [&] { return cu.EventRecordWithFlags(event, stream, 1); });
  log.says("query.null", [&] { return cu.EventQuery(nullptr); });
  log.says("query.not_ready", [&] { return cu.EventQuery(pending); });
  log.says("query.stream_not_ready", [&] { return cu.StreamQuery(held); });
  log.says("synchronize.null", [&] { return cu.EventSynchronize(nullptr); });
  log.says("wait.null", [&] { return cu.StreamWaitEvent(stream, nullptr, 0); });
  log.says("wait.external", [&] { return cu.StreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL); });
  log.says("wait.unknown", [&] { return cu.StreamWaitEvent(stream, event, unknown); });
  log.says("destroy.null", [&] { return cu.EventDestroy(nullptr); });
  log.says("create.unknown", [&] { return cu.EventCreate(&made, unknown); });
  log.says("create.timed_interprocess", [&] { return cu.EventCreate(&made, CU_EVENT_INTERPROCESS); });
  log.says("create.null", [&] { return cu.EventCreate(nullptr, 0); });
  log.says("elapsed.not_ready", [&] { return cu.EventElapsedTime(&ms, timed, pending); });
  log.says("elapsed.never", [&] { return cu.EventElapsedTime(&ms, timed, never); });
  log.says("elapsed.untimed", [&] { return cu.EventElapsedTime(&ms, event, event); });
  log.says("elapsed.null", [&] { return cu.EventElapsedTime(&ms, nullptr, timed); });
  log.says("elapsed.no_result", [&] { return cu.EventElapsedTime(nullptr, timed, timed); });
  log.says("elapsed.v2.untimed", [&] { return cu.EventElapsedTimeV2(&ms, event, event); });
  log.says("elapsed.v2.not_ready", [&] { return cu.EventElapsedTimeV2(&ms, timed, pending); });
  CUipcEventHandle exported{};
  log.says("export.not_interprocess", [&] { return cu.IpcGetEventHandle(&exported, event); });
  log.says("export.null", [&] { return cu.IpcGetEventHandle(&exported, nullptr); });
  log.says("open.wrong_handle", [&] { return cu.IpcOpenEventHandle(&made, CUipcEventHandle{}); });
  lab.must(cu.IpcGetEventHandle(&exported, shared), "export");
  log.says("open.own", [&] { return cu.IpcOpenEventHandle(&made, exported); });
  CUcontext context = nullptr;
  cu.CtxGetCurrent(&context);
  log.says("context.record.other", [&] { return cu.CtxRecordEvent(context, other); });
  log.says("context.record.null", [&] { return cu.CtxRecordEvent(context, nullptr); });
  log.says("context.wait.null", [&] { return cu.CtxWaitEvent(context, nullptr); });
  {
    const Current none(lab, nullptr);
    log.says("no_context.create", [&] { return cu.EventCreate(&made, 0); });
    log.says("no_context.record", [&] { return cu.EventRecord(event, nullptr); });
    log.says("no_context.wait", [&] { return cu.StreamWaitEvent(nullptr, event, 0); });
    log.says("no_context.query", [&] { return cu.EventQuery(event); });
    log.says("no_context.export", [&] { return cu.IpcGetEventHandle(&exported, shared); });
  }
  cu.EventDestroy(other);
}

void captures(Lab& lab) {
  const Api& cu = lab.cu;
  Log log(lab);
  Event finished(lab), timed(lab, CU_EVENT_DEFAULT);
  {
    Stream stream(lab);
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.must(cu.EventRecord(finished, stream), "record");
    lab.must(cu.EventRecord(timed, stream), "record");
    lab.must(end_capture(lab, stream), "end");
  }
  float ms = 0;
  Stream outside(lab);
  log.says("finished.query", [&] { return cu.EventQuery(finished); });
  log.says("finished.synchronize", [&] { return cu.EventSynchronize(finished); });
  log.says("finished.wait", [&] { return cu.StreamWaitEvent(outside, finished, 0); });
  log.says("finished.elapsed", [&] { return cu.EventElapsedTime(&ms, timed, timed); });
  log.says("finished.elapsed_v2", [&] { return cu.EventElapsedTimeV2(&ms, timed, timed); });

  using Act = CUresult (*)(Scene&);
  const std::pair<const char*, Act> acts[] = {
      {"query_done", [](Scene& s) { return s.cu.EventQuery(s.done); }},
      {"query_captured", [](Scene& s) { return s.cu.EventQuery(s.captured); }},
      {"synchronize_done", [](Scene& s) { return s.cu.EventSynchronize(s.done); }},
      {"synchronize_captured", [](Scene& s) { return s.cu.EventSynchronize(s.captured); }},
      {"elapsed_captured",
       [](Scene& s) {
         float time = 0;
         return s.cu.EventElapsedTime(&time, s.captured, s.captured);
       }},
      {"record_shared", [](Scene& s) { return s.cu.EventRecord(s.shared, s.origin); }},
      {"wait_pending", [](Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.pending, 0); }},
      {"wait_outside", [](Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.done, 0); }},
      {"external_wait_captured",
       [](Scene& s) { return s.cu.StreamWaitEvent(s.bystander, s.captured, CU_EVENT_WAIT_EXTERNAL); }},
      {"query_stream", [](Scene& s) { return s.cu.StreamQuery(s.origin); }},
      {"synchronize_stream", [](Scene& s) { return s.cu.StreamSynchronize(s.origin); }},
      {"create_event",
       [](Scene& s) {
         CUevent event = nullptr;
         const CUresult result = s.cu.EventCreate(&event, 0);
         if (event != nullptr) s.cu.EventDestroy(event);
         return result;
       }},
      {"begin_again",
       [](Scene& s) { return s.cu.StreamBeginCapture(s.origin, CU_STREAM_CAPTURE_MODE_RELAXED); }},
      {"end_on_fork",
       [](Scene& s) {
         s.branch(true);
         return end_capture(s.lab, s.fork);
       }},
      {"unjoined",
       [](Scene& s) {
         s.branch(true);
         return end_capture(s.lab, s.origin);
       }},
      {"invalidated.end",
       [](Scene& s) {
         s.cu.StreamQuery(s.origin);
         return end_capture(s.lab, s.origin);
       }},
      {"invalidated.record",
       [](Scene& s) {
         s.cu.StreamQuery(s.origin);
         return s.cu.EventRecord(s.done, s.origin);
       }},
      {"wrong_thread",
       [](Scene& s) { return on_other_thread(s.lab, [&] { return end_capture(s.lab, s.origin); }); }},
      {"context_record",
       [](Scene& s) {
         CUcontext context = nullptr;
         s.cu.CtxGetCurrent(&context);
         return s.cu.CtxRecordEvent(context, s.done);
       }},
  };
  for (const auto& [name, act] : acts) {
    Scene scene(lab, CU_STREAM_CAPTURE_MODE_GLOBAL);
    log.says(name, [&, call = act] { return call(scene); });
  }
  {
    Scene scene(lab, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_DEFAULT);
    log.says("implicit.record", [&] { return cu.EventRecord(scene.done, nullptr); });
  }
  {
    Scene scene(lab, CU_STREAM_CAPTURE_MODE_GLOBAL);
    Stream second(lab);
    Event event(lab);
    cu.StreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cu.EventRecord(event, second);
    log.says("merge", [&] { return cu.StreamWaitEvent(scene.origin, event, 0); });
    end_capture(lab, second);
  }
  log.says("end_when_idle", [&] { return end_capture(lab, outside); });
  log.says("begin_null", [&] { return cu.StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED); });
  log.says("begin_unknown_mode",
           [&] { return cu.StreamBeginCapture(outside, static_cast<CUstreamCaptureMode>(3)); });
}

void others(Lab& lab) {
  const Api& cu = lab.cu;
  Log log(lab);
  Stream stream(lab);
  Event event(lab);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr, none = nullptr;
  CUgraphExec exec = nullptr;
  lab.must(cu.GraphCreate(&graph, 0), "graph");
  lab.must(cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event), "node");
  lab.must(cu.GraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
  log.says("graph.node.null_event",
           [&] { return cu.GraphAddEventRecordNode(&none, graph, nullptr, 0, nullptr); });
  log.says("graph.node.null_graph",
           [&] { return cu.GraphAddEventRecordNode(&none, nullptr, nullptr, 0, event); });
  log.says("graph.wrong_type", [&] { return cu.GraphEventWaitNodeSetEvent(node, event); });
  log.says("graph.exec_set.success", [&] { return cu.GraphExecEventRecordNodeSetEvent(exec, node, event); });
  log.says("graph.exec_set.wrong_type", [&] { return cu.GraphExecEventWaitNodeSetEvent(exec, node, event); });
  log.says("graph.exec_set.null_event",
           [&] { return cu.GraphExecEventRecordNodeSetEvent(exec, node, nullptr); });
  cu.GraphDestroy(graph);
  log.says("graph.exec_set.after_the_graph",
           [&] { return cu.GraphExecEventRecordNodeSetEvent(exec, node, event); });
  log.says("graph.launch_null", [&] { return cu.GraphLaunch(nullptr, stream); });
  log.says("graph.destroy_null", [&] { return cu.GraphDestroy(nullptr); });
  log.says("graph.exec_destroy_null", [&] { return cu.GraphExecDestroy(nullptr); });
  cu.GraphExecDestroy(exec);
  log.says("stream.destroy_null", [&] { return cu.StreamDestroy(nullptr); });
  CUstream made = nullptr;
  log.says("stream.create_unknown", [&] { return cu.StreamCreate(&made, unknown); });
  const CUdeviceptr word = Lab::address(lab.word());
  log.says("value.wait_unknown", [&] { return cu.StreamWaitValue32(stream, word, 0, unknown); });
  log.says("value.write_nowhere", [&] { return cu.StreamWriteValue32(stream, 16, 0, 0); });
  std::ostringstream unaligned;
  unaligned << "0x" << std::hex << word + 4;
  log.says(
      "value.write_64_unaligned", [&] { return cu.StreamWriteValue64(stream, word + 4, 0, 0); },
      unaligned.str());
  CUcontext popped = nullptr;
  const Current nothing(lab, nullptr);
  log.says("context.pop_empty", [&] { return cu.CtxPopCurrent(&popped); });
  CUdevice device = 0;
  log.says("context.device_without", [&] { return cu.CtxGetDevice(&device); });
  log.says(
      "device.get_99", [&] { return cu.DeviceGet(&device, 99); },
      "0 and " + std::to_string(lab.device_count));
  void* found = nullptr;
  log.says("lookup.unknown", [&] { return cu.GetProcAddress("cuNothing", &found, 12000, 0, nullptr); });
  log.says("lookup.wrong_flags", [&] { return cu.GetProcAddress("cuInit", &found, 12000, 99, nullptr); });
  log.says("log.register_null", [&] { return cu.LogsRegisterCallback(nullptr, nullptr, nullptr); });
  log.says("log.unregister_null", [&] { return cu.LogsUnregisterCallback(nullptr); });
}

std::atomic<int> lines = 0;
void CUDA_CB count(void*, CUlogLevel, char*, size_t) { ++lines; }

// A callback that runs until it may return.
std::atomic<bool> held_callback_runs = false, may_return = false;
void CUDA_CB held_callback(void*, CUlogLevel, char*, size_t) {
  held_callback_runs = true;
  while (!may_return)
    std::this_thread::sleep_for(1ms);
}

void callbacks(Lab& lab) {
  const Api& cu = lab.cu;
  const auto logged = [&](CUresult (*call)(const Api&)) {
    lines = 0;
    call(cu);
    return lines.load();
  };
  const auto query = [](const Api& api) { return api.EventQuery(nullptr); };
  CUlogsCallbackHandle first = nullptr, second = nullptr;
  lab.is("register.null_function", cu.LogsRegisterCallback(nullptr, nullptr, &first));
  lab.is("register", cu.LogsRegisterCallback(count, nullptr, &first));
  lab.shows("register.lines", logged(query));
  lab.is("register.same_again", cu.LogsRegisterCallback(count, nullptr, &second));
  lab.shows("register.same_again.same_handle", first == second);
  lab.shows("register.same_again.lines", logged(query));
  lab.is("unregister", cu.LogsUnregisterCallback(first));
  lab.shows("unregister.lines", logged(query));
  lab.is("unregister.other", cu.LogsUnregisterCallback(second));
  lab.shows("unregister.other.lines", logged(query));
  std::vector<CUlogsCallbackHandle> many(200);
  int registered = 0;
  for (CUlogsCallbackHandle& one : many)
    registered += cu.LogsRegisterCallback(count, nullptr, &one) == CUDA_SUCCESS;
  lab.shows("many.registered", registered);
  lab.shows("many.lines", logged(query));
  for (CUlogsCallbackHandle const one : many)
    if (one != nullptr) cu.LogsUnregisterCallback(one);
  lab.shows("many.lines_afterwards", logged(query));

  Event event(lab);
  for (const char* const name : {"good_call", "unregister_other", "unregister"}) {
    const std::string_view which = name;
    CUlogsCallbackHandle held = nullptr, other = nullptr;
    lab.must(cu.LogsRegisterCallback(held_callback, nullptr, &held), "register");
    lab.must(cu.LogsRegisterCallback(count, nullptr, &other), "register");
    held_callback_runs = may_return = false;
    std::thread refused([&] { cu.EventQuery(nullptr); });
    while (!held_callback_runs)
      std::this_thread::yield();
    Background call(lab, [&] {
      return which == "good_call" ? cu.EventQuery(event)
                                  : cu.LogsUnregisterCallback(which == "unregister" ? held : other);
    });
    // A call that does not wait gets the time that a busy machine needs.
    const bool waits = !call.returns_within(which == "good_call" ? 10s : 100ms);
    lab.shows(std::string("waits_for_a_callback.") + name, waits);
    may_return = true;
    refused.join();
    call.join();
    if (which != "unregister") cu.LogsUnregisterCallback(held);
    if (which != "unregister_other") cu.LogsUnregisterCallback(other);
  }
  static std::thread::id logged_on;
  CUlogsCallbackHandle where = nullptr;
  lab.must(
      cu.LogsRegisterCallback(
          [](void*, CUlogLevel, char*, size_t) { logged_on = std::this_thread::get_id(); }, nullptr, &where),
      "register");
  std::thread::id caller;
  std::thread([&] {
    caller = std::this_thread::get_id();
    cu.EventQuery(nullptr);
  }).join();
  lab.shows("on_the_thread_of_the_call", logged_on == caller);
  cu.LogsUnregisterCallback(where);
  lab.is("unregister.null", cu.LogsUnregisterCallback(nullptr));
}

// The answer of a forked child, or "hangs".
std::string in_fork(const std::function<int()>& ask) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const int answer = ask();
    _exit(write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
  }
  pollfd wait{ends[0], POLLIN, 0};
  int answer = 0;
  const bool came = poll(&wait, 1, 5000) == 1 && read(ends[0], &answer, sizeof answer) == sizeof answer;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return came ? std::to_string(answer) : "hangs";
}

void forked(Lab& lab) {
  const Api& cu = lab.cu;
  CUlogsCallbackHandle handle = nullptr, another = nullptr;
  lab.must(cu.LogsRegisterCallback(count, nullptr, &handle), "register");
  lab.shows("lines", in_fork([&] {
              lines = 0;
              cu.EventQuery(nullptr);
              CUdevice device = 0;
              cu.DeviceGet(&device, 99);
              CUcontext context = nullptr;
              cu.CtxGetCurrent(&context);
              return lines.load();
            }));
  lab.shows("unregister", in_fork([&] { return static_cast<int>(cu.LogsUnregisterCallback(handle)); }));
  lab.shows("register",
            in_fork([&] { return static_cast<int>(cu.LogsRegisterCallback(count, nullptr, &another)); }));
  cu.LogsUnregisterCallback(handle);
}

} // namespace

std::vector<Scenario> driver_log_scenarios() {
  return {{"log.events", events, Place::child},
          {"log.captures", captures, Place::child},
          {"log.others", others, Place::alone},
          {"log.callbacks", callbacks, Place::child},
          {"log.forked", forked, Place::alone}};
}

} // namespace transcript

#else

namespace transcript {
std::vector<Scenario> driver_log_scenarios() { return {}; }
} // namespace transcript

#endif
