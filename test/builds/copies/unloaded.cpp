// SPDX-License-Identifier: MIT
// Plugins that use cuevent and are unloaded at once: docs/lifetime.md says which of them stay loaded. The
// program has a static copy of its own, so that nothing of it keeps libcuevent.so loaded.
//   unloaded PLUGIN-WITH-A-COPY PLUGIN ANOTHER-PLUGIN
#include "unloaded.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

/// The destructor of a thread_local object keeps its library loaded until the thread ends.
enum class Leaves { nothing, a_thread_local, a_thread, a_callback };

struct Use {
  const char* name;
  Leaves leaves;
};
constexpr Use uses[] = {
    {"DriverEvent", Leaves::nothing},
    {"EventPool", Leaves::a_thread_local},
    {"CompletionQueue", Leaves::nothing},
    {"TimelineFence", Leaves::nothing},
    {"TimelineSemaphore", Leaves::nothing},
    {"TimelineSemaphore::export_handle", Leaves::a_thread},
    {"TimelineSemaphore::import", Leaves::a_thread},
    {"Graph::retain(event)", Leaves::a_callback},
    {"Graph::retain(object)", Leaves::a_callback},
    {"Graph::when_destroyed", Leaves::a_callback},
    {"StageTimer in a capture", Leaves::a_callback},
    {"FlightRecorder in a capture", Leaves::a_callback},
};

bool failed = false;
void require(bool holds, const char* what) {
  if (holds) return;
  failed = true;
  std::printf("  expected in vain: %s\n", what);
}

CUstream make_stream(const Context& context) {
  const ContextGuard current(context);
  CUstream stream = nullptr;
  require(context.driver().table().cuStreamCreate_v2000(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS,
          "a stream");
  return stream;
}

/// Loads the plugin, lets it do something, and unloads it.
void use(const char* plugin, const char* name, const Context& context, CUstream stream, CUstream capturing,
         const Graph& graph) {
  void* const handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  require(handle != nullptr, "the plugin is found");
  if (handle == nullptr) return;
  auto* const function = reinterpret_cast<UsePlugin*>(dlsym(handle, "use_plugin"));
  if (const char* const wrong =
          function(name, context.native_handle(), stream, capturing, graph.native_handle()))
    require(false, wrong);
  dlclose(handle);
}

bool is_loaded(const char* plugin) { return dlopen(plugin, RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

void unload(const char* plugin, const char* another, const Use& what, bool has_copy, bool on_a_thread) {
  const Context context = Context::primary(0);
  const CUstream stream = make_stream(context), captured = make_stream(context);
  std::optional<Graph> graph(context);
  {
    std::optional<StreamCapture> capture(std::in_place, context, captured, CaptureMode::relaxed);
    const auto run = [&] { use(plugin, what.name, context, stream, captured, *graph); };
    on_a_thread ? std::thread(run).join() : run();
    if (has_copy)
      require(is_loaded(plugin) == (what.leaves != Leaves::nothing), "it stays loaded as documented");
    static_cast<void>(capture->end()); // its graph ends here
  }
  graph.reset();
  // Longer than a period of the thread.
  if (what.leaves != Leaves::nothing) std::this_thread::sleep_for(150ms);
  const pid_t child = fork(); // no fork handler of the unloaded code is left
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  if (what.leaves == Leaves::a_callback && !has_copy)
    use(another, "destroy_retired", context, stream, captured, Graph(context));
}

} // namespace

int main(int, char** arguments) {
  const char* const with_copy = arguments[1];
  const char* const shared = arguments[2];
  int wrong = 0;
  for (const char* plugin : {with_copy, shared})
    for (const Use& each : uses)
      for (const bool on_a_thread : {false, true}) {
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
          alarm(60);
          unload(plugin, arguments[3], each, plugin == with_copy, on_a_thread);
          std::exit(failed ? 1 : 0); // with the exit handlers of the plugin, if it stays loaded
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status == 0) continue;
        ++wrong;
        std::printf("%s in %s%s: %s %d\n", each.name,
                    plugin == with_copy ? "a plugin with a copy" : "a plugin",
                    on_a_thread ? ", on a thread" : "", WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
      }
  return wrong == 0 ? 0 : 1;
}
