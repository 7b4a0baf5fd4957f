// SPDX-License-Identifier: MIT
#include "work_on_cuevent.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/timeline_fence.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace on_cuevent {
namespace {

using cuevent::CompletionQueue;
using cuevent::Context;
using cuevent::PollLimit;
using cuevent::TimelineFence;

struct Callback {
  int calls = 0;
  CUresult result = CUDA_SUCCESS;
};

/// What follows the work of one stream.
struct Following {
  TimelineFence fence;
  std::uint64_t last = 0; ///< ticket
  std::size_t submitted = 0, run = 0;
  Callback callbacks[64]; ///< more than a program has calls

  void run_callback(std::size_t number, CUresult result) {
    if (number != run++) report("callback", "not in the order of submission", result);
    ++callbacks[number].calls;
    callbacks[number].result = result;
  }
};

/// A created stream, or a default stream of a context and, for CU_STREAM_PER_THREAD, of a thread.
using Place = std::tuple<CUstream, CUcontext, std::thread::id>;

transcript::Api next;
std::uint64_t program = 0; // its seed
int submissions = 0;
bool a_queue_ended = false;
long tickets = 0, completed = 0, pending_at_the_end = 0, refused = 0;
std::map<CUstream, CUcontext> homes; // of created streams
std::map<CUcontext, CompletionQueue> queues;
std::map<Place, std::unique_ptr<Following>> of_streams;
std::vector<std::unique_ptr<Following>> of_gone_streams;

Place place_of(CUstream stream, const Context& context) {
  const std::thread::id thread =
      stream == CU_STREAM_PER_THREAD ? std::this_thread::get_id() : std::thread::id();
  return {stream, is_default(stream) ? context.native_handle() : nullptr, thread};
}

std::size_t poll_all(const PollLimit& limit) {
  std::size_t run = 0;
  for (auto& [context, queue] : queues)
    run += with_the_same_context("poll", [&queue = queue, &limit] { return queue.poll(limit); });
  return run;
}

/// How a signal and a submission have to be answered.
CUresult expected_on(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = plain.StreamIsCapturing(stream, &status);
  if (result != CUDA_SUCCESS) return result;
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return status == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

void signal(Following& following, const Context& context, CUstream stream, CUresult expected) {
  TimelineFence& fence = following.fence;
  if (!fence && TimelineFence::try_create(fence, context, stream) != CUDA_SUCCESS)
    return report("TimelineFence", "cannot be created", CUDA_SUCCESS);
  std::uint64_t ticket = 0;
  const CUresult result = with_the_same_context("signal", [&] { return fence.try_signal(ticket); });
  if (result != expected) report("signal", "not answered as documented", result);
  if (result != CUDA_SUCCESS) return;
  if (following.last != 0 && ticket != following.last + 1)
    report("signal", "the ticket is not the next", result);
  following.last = ticket;
  ++tickets;
}

CompletionQueue& queue_of(const Context& context) {
  const auto found = queues.find(context.native_handle());
  if (found != queues.end()) return found->second;
  const std::lock_guard lock(queues_and_pools);
  return queues.emplace(context.native_handle(), CompletionQueue(context)).first->second;
}

void submit(Following& following, const Context& context, CUstream stream, CUresult expected) {
  CompletionQueue& queue = queue_of(context);
  const std::size_t number = following.submitted;
  const CUresult result = with_the_same_context("when_complete", [&] {
    const auto callback = [&following, number](CUresult answer) { following.run_callback(number, answer); };
    if (submissions % 2 == 0) return queue.try_when_complete({context, stream}, callback);
    CompletionQueue::Lane lane;
    const CUresult made = queue.try_lane(lane, {context, stream});
    return made == CUDA_SUCCESS ? lane.try_when_complete(callback) : made;
  });
  if (result != expected) report("when_complete", "not answered as documented", result);
  if (result == CUDA_SUCCESS)
    ++following.submitted;
  else
    ++refused;
}

enum class Adds { callback, callback_and_ticket };

/// Called after the program's work is on the stream.
void follow(CUstream stream, Adds what) {
  const auto home = homes.find(stream);
  const Context context = home != homes.end() ? Context::borrow(home->second, *driver) : current();
  std::unique_ptr<Following>& following = of_streams[place_of(stream, context)];
  if (!following) following = std::make_unique<Following>();
  const CUresult expected = expected_on(stream);
  if (what == Adds::callback_and_ticket) signal(*following, context, stream, expected);
  submit(*following, context, stream, expected);
  ++submissions;
  if (program % 8 == 3 && submissions == 6) { // what is pending then is told so
    const std::lock_guard lock(queues_and_pools);
    queues.clear();
    a_queue_ended = true;
  }
  poll_all(submissions % 3 == 0 ? PollLimit{1} : PollLimit{});
}

CUresult followed(CUresult result, CUstream stream, Adds what) {
  if (result == CUDA_SUCCESS) follow(stream, what);
  return result;
}

CUresult CUDAAPI write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const CUresult result = next.StreamWriteValue32(stream, address, value, flags);
  return followed(result, stream, Adds::callback_and_ticket);
}

CUresult CUDAAPI wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const CUresult result = next.StreamWaitValue32(stream, address, value, flags);
  return followed(result, stream, Adds::callback_and_ticket);
}

CUresult CUDAAPI launch(const CUlaunchConfig* config, CUfunction kernel, void** parameters, void** extra) {
  const CUresult result = next.LaunchKernelEx(config, kernel, parameters, extra);
  return followed(result, config->hStream, Adds::callback_and_ticket);
}

CUresult CUDAAPI launch_graph(CUgraphExec exec, CUstream stream) {
  return followed(next.GraphLaunch(exec, stream), stream, Adds::callback);
}

CUresult CUDAAPI record(CUevent event, CUstream stream) {
  return followed(next.EventRecord(event, stream), stream, Adds::callback);
}

CUresult CUDAAPI record_with_flags(CUevent event, CUstream stream, unsigned flags) {
  return followed(next.EventRecordWithFlags(event, stream, flags), stream, Adds::callback);
}

CUresult note_home(CUresult result, const CUstream* stream) {
  if (result == CUDA_SUCCESS) homes[*stream] = current().native_handle();
  return result;
}

CUresult CUDAAPI create_stream(CUstream* stream, unsigned flags) {
  return note_home(next.StreamCreate(stream, flags), stream);
}

CUresult CUDAAPI create_stream_with_priority(CUstream* stream, unsigned flags, int priority) {
  return note_home(next.StreamCreateWithPriority(stream, flags, priority), stream);
}

CUresult CUDAAPI destroy_stream(CUstream stream) {
  const CUresult result = next.StreamDestroy(stream);
  if (result != CUDA_SUCCESS || homes.erase(stream) == 0) return result;
  // Its work goes on, and so do the callbacks. Another stream may get the handle.
  if (auto gone = of_streams.extract({stream, nullptr, {}}); !gone.empty())
    of_gone_streams.push_back(std::move(gone.mapped()));
  return result;
}

void check(const Following& following) {
  for (std::size_t number = 0; number < following.submitted; ++number) {
    const Callback& callback = following.callbacks[number];
    if (callback.calls != 1) report("callback", "did not run exactly once", callback.result);
    const bool documented =
        callback.result == CUDA_SUCCESS || (a_queue_ended && callback.result == CUDA_ERROR_NOT_READY);
    ++(callback.result == CUDA_SUCCESS ? completed : pending_at_the_end);
    if (!documented) report("callback", "has another result than success", callback.result);
  }
  if (!following.fence.reached(following.last)) report("fence", "a ticket is not reached", CUDA_SUCCESS);
  if (following.fence.completed() != following.fence.signalled())
    report("fence", "another ticket is reached than the last", CUDA_SUCCESS);
}

} // namespace

transcript::Api work_through_cuevent(const transcript::Api& below) {
  next = below;
  transcript::Api api = below;
  api.StreamWriteValue32 = write_value;
  api.StreamWaitValue32 = wait_value;
  api.LaunchKernelEx = launch;
  api.GraphLaunch = launch_graph;
  api.EventRecord = record;
  api.EventRecordWithFlags = record_with_flags;
  api.StreamCreate = create_stream;
  api.StreamCreateWithPriority = create_stream_with_priority;
  api.StreamDestroy = destroy_stream;
  return api;
}

void work_begins(std::uint64_t seed) {
  program = seed;
  submissions = 0;
  a_queue_ended = false;
}

void poll_as_a_neighbour() { poll_all({}); }

void work_ends() {
  for (int attempt = 0; attempt < 1000; ++attempt) // all gates are open
    if (poll_all({}) == 0 && attempt > 2) break;
  for (const auto& [context, queue] : queues)
    if (queue.pending() != 0)
      report("queue", "callbacks are pending although all work is done", CUDA_SUCCESS);
  queues.clear();
  for (const auto& [place, following] : of_streams)
    check(*following);
  for (const auto& following : of_gone_streams)
    check(*following);
  of_streams.clear();
  of_gone_streams.clear();
}

void print_work() {
  std::printf("%ld tickets; %ld callbacks after work, %ld of a queue that ended; %ld refused in captures\n",
              tickets, completed, pending_at_the_end, refused);
}

} // namespace on_cuevent
