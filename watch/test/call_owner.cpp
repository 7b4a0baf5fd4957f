// SPDX-License-Identifier: MIT
#include "report/call_owner.hpp"

#include <catch2/catch_test_macros.hpp>

using watch::Owner;
using watch::SourceFrame;

namespace {

const std::string program = "/home/a/train", python = "/home/a/conda/bin/python3.11";

SourceFrame frame(const std::string& library, const std::string& function = "") {
  SourceFrame made;
  made.library = library;
  made.function = function;
  return made;
}

/// The owner of a call by this library.
Owner owner(const std::string& library, const std::vector<std::string>& python_frames = {},
            const std::string& process = program) {
  return watch::owner_of(frame(library, "function"), python_frames, process);
}

} // namespace

TEST_CASE("the program and its libraries are the program's", "[watch][owner]") {
  CHECK(owner(program) == Owner::program);
  CHECK(owner("/home/a/libmodel.so") == Owner::program);
  CHECK(owner("/opt/app/server", {}, "/opt/app/server") == Owner::program);
  CHECK(owner("/home/a/usr/lib/libmodel.so") == Owner::program);
}

TEST_CASE("libraries of the system and of packages are not the program's", "[watch][owner]") {
  for (const char* library :
       {"/usr/local/lib/libmagma.so", "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
        "/opt/lib/libmpi.so", "/home/a/env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so",
        "/home/a/lib/python3/dist-packages/cupy/driver.so"})
    CHECK(owner(library) == Owner::package);
  CHECK(owner("/home/a/conda/lib/libmagma.so", {}, python) == Owner::package);
  CHECK(owner("/home/a/conda/lib/libmagma.so") == Owner::program);
}

TEST_CASE("the libraries of CUDA are known wherever they are", "[watch][owner]") {
  CHECK(owner("/home/a/lib/libnccl.so.2") == Owner::cuda);
  CHECK(owner("/usr/local/cuda/lib64/libcublasLt.so.13") == Owner::cuda);
  CHECK(owner("/home/a/libcuevent.so") == Owner::program);
}

TEST_CASE("a call of Python is the program's if its first frame is", "[watch][owner]") {
  const std::vector<std::string> script = {"train.py:12 in step"};
  const std::vector<std::string> package = {"/x/site-packages/torch/autograd/graph.py:3 in f",
                                            "train.py:12 in step"};
  for (const char* library : {"/home/a/conda/bin/python3.11", "/usr/lib/libpython3.11.so.1.0",
                              "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
                              "/usr/lib/x86_64-linux-gnu/libffi.so.8"}) {
    CHECK(owner(library, script, python) == Owner::program);
    CHECK(owner(library, package, python) == Owner::package);
    CHECK(owner(library, {"/usr/lib/python3.11/ctypes/__init__.py:5 in f"}, python) == Owner::package);
    CHECK(owner(library, {}, python) == Owner::unknown);
  }
}

TEST_CASE("an event that a program makes by the class of a package is the program's", "[watch][owner]") {
  const char* const library = "/x/site-packages/torch/lib/libtorch_python.so";
  const std::string record = "/x/site-packages/torch/cuda/streams.py:223 in record",
                    wait = "/x/site-packages/torch/cuda/streams.py:55 in wait_stream",
                    script = "train.py:12 in step", package = "/x/site-packages/model/layer.py:3 in forward";
  CHECK(owner(library, {record, script}, python) == Owner::program);
  CHECK(owner(library, {record, record, script}, python) == Owner::program);
  CHECK(owner(library, {record, package, script}, python) == Owner::package);
  CHECK(owner(library, {record, wait, script}, python) == Owner::package); // the program cannot keep it
  CHECK(owner(library, {script}, python) == Owner::package);               // of the allocator, perhaps
  CHECK(owner(library, {record}, python) == Owner::package);
}

TEST_CASE("what leads from the program to the driver is no part of the program", "[watch][owner]") {
  for (const char* function : {"std::function<void ()>::operator()() const",
                               "void std::__invoke_impl<void, main::{lambda()#1}>(int)",
                               "cuevent::v0_1::DriverEvent::record(cuevent::v0_1::StreamRef) const",
                               "cudaEventRecord", "programs()::{lambda(Gpu&)#9}::_FUN(Gpu&)"})
    CHECK(watch::is_wrapper(frame(program, function)));
  CHECK(watch::is_wrapper(frame("/usr/lib/libcuevent.so.0.1")));
  for (const char* function :
       {"main", "step(std::vector<int>&)", "std::vector<int> load<int>(int)", "",
        "programs()::{lambda(std::string)#9}::operator()(std::string) const", "mystd::run()"})
    CHECK_FALSE(watch::is_wrapper(frame(program, function)));
}

TEST_CASE("a function of the program is no wrapper, whatever its name or what was inlined into it",
          "[watch][owner]") {
  const auto lies_in = [](const char* function, const char* file) {
    SourceFrame made = frame(program, function);
    made.file = file;
    return made;
  };
  CHECK_FALSE(
      watch::is_wrapper(lies_in("std::_Function_handler<void ()>::_M_invoke()", "/home/a/train.cpp")));
  CHECK_FALSE(watch::is_wrapper(lies_in("cudaCheck", "/home/a/check.c")));
  CHECK_FALSE(watch::is_wrapper(lies_in("step()", "/usr/src/app/train.cpp")));
  for (const char* function : {"cudaCheck(int)", "cuda_step", "cudart"})
    CHECK_FALSE(watch::is_wrapper(frame(program, function)));
  for (const char* header : {"/usr/include/c++/12/bits/invoke.h", "/home/a/conda/include/c++/13/thread",
                             "/x/site-packages/torch/include/c10/cuda/CUDAEvent.h"})
    CHECK(watch::is_wrapper(lies_in("operator()", header)));
  CHECK(watch::is_wrapper(lies_in("cudaMalloc<float>(float**, unsigned long)", "/opt/cuda/cuda_runtime.h")));
}

TEST_CASE("the caller is the innermost frame that is the program's", "[watch][owner]") {
  const SourceFrame runtime = frame("/x/libcudart.so.13", "cudaEventCreate"), own = frame(program, "step()"),
                    machinery = frame(program, "std::thread::_State_impl<main::{lambda()#1}>::_M_run()"),
                    pointer = frame(program, "main::{lambda(void*)#1}::_FUN(void*)"),
                    cpp = frame("/usr/lib/libstdc++.so.6", "std::thread::join()"),
                    other = frame("/usr/lib/libpool.so", "run_task"), start = frame("", "start_thread");
  const struct {
    std::vector<SourceFrame> stack;
    std::size_t caller;
  } cases[] = {
      {{runtime, own, machinery, start}, 1},
      {{runtime, machinery, cpp, start}, 1}, // the lambda was inlined into it
      {{runtime, machinery, cpp}, 1},
      {{runtime, machinery, other}, 1},
      {{runtime, machinery, own}, 2}, // its own caller says more
      {{runtime, pointer, own}, 1},
      {{runtime, pointer, start}, 1},
      {{runtime, other, own}, 1},
      {{runtime, cpp, start}, 3}, // nobody
      {{start}, 1},
      {{}, 0},
  };
  for (const auto& [stack, caller] : cases)
    CHECK(watch::caller_among(stack) == caller);
}

TEST_CASE("the name of a function has neither its result nor its arguments", "[watch][owner]") {
  const struct {
    const char *function, *name;
  } cases[] = {{"step", "step"},
               {"step(std::vector<int, std::allocator<int> >&)", "step"},
               {"std::vector<int> load<int>(int)", "load<int>"},
               {"Destroy::operator()(CUevent_st*) const", "Destroy::operator()"},
               {"main::{lambda()#1}::operator()() const", "main::{lambda()#1}::operator()"},
               {"main::{lambda}::operator()", "main::{lambda}::operator()"}};
  for (const auto& [function, name] : cases)
    CHECK(watch::qualified_name(function) == name);
}

TEST_CASE("calls without frames have no owner", "[watch][owner]") {
  CHECK(watch::owner_of(std::nullopt, {}, program) == Owner::unknown);
  CHECK(watch::owner_of(frame(""), {}, program) == Owner::unknown); // generated code
}

TEST_CASE("the CUDA runtime may be a library or part of the program", "[watch][owner]") {
  CHECK(watch::is_cuda_runtime(frame("/usr/lib/libcuda.so.1")));
  CHECK(watch::is_cuda_runtime(frame("/home/a/lib/libcudart.so.13")));
  CHECK(watch::is_cuda_runtime(frame(program, "cudaEventCreate")));
  CHECK(watch::is_cuda_runtime(frame(program, "libcudart_static_12d4")));
  CHECK_FALSE(watch::is_cuda_runtime(frame(program, "main")));
  CHECK_FALSE(watch::is_cuda_runtime(frame("/home/a/libmodel.so")));
}

TEST_CASE("a finding about libraries of CUDA alone is not the program's", "[watch][owner]") {
  using watch::Rule;
  const SourceFrame cublas = frame("/x/libcublas.so.12", "cublasXtSgemm"), nccl = frame("/x/libnccl.so.2"),
                    runtime = frame("/x/libcudart.so.12", "cudaStreamWaitEvent"),
                    driver = frame("/x/libcuda.so.1"), main = frame(program, "main"),
                    linked =
                        frame("/x/site-packages/torch/lib/libtorch_cuda.so", "ncclStrongStreamWaitStream"),
                    standard = frame("/usr/lib/libstdc++.so.6", "execute_native_thread_routine"),
                    linked_runtime = frame(program, "libcudart_static_12d4"),
                    runtime_of_cublas = frame("/x/libcublas.so.12", "libcudart_static_12d4");
  // Whoever has called the library.
  for (const Rule rule : {Rule::wait_never_recorded, Rule::record_replaced, Rule::leaked}) {
    CHECK(watch::is_of_vendor(rule, {runtime, cublas, main}));
    CHECK(watch::is_of_vendor(rule, {linked, main}));
    CHECK_FALSE(watch::is_of_vendor(rule, {runtime, main}));
    CHECK_FALSE(watch::is_of_vendor(rule, {main, cublas, main}));
  }
  // Only if nobody has.
  for (const Rule rule : {Rule::refused_call, Rule::capture_invalidated, Rule::unordered_copies}) {
    for (const auto& stack : {std::vector{runtime, cublas}, {nccl, standard}, {driver}, {runtime, driver}})
      CHECK(watch::is_of_vendor(rule, stack));
    CHECK_FALSE(watch::is_of_vendor(rule, {runtime, cublas, main}));
    CHECK_FALSE(watch::is_of_vendor(rule, {standard}));
    // Who has called the runtime is not known.
    for (const auto& stack : {std::vector{runtime}, {runtime, runtime}, {driver, runtime}, {linked_runtime}})
      CHECK_FALSE(watch::is_of_vendor(rule, stack));
    CHECK(watch::is_of_vendor(rule, {runtime, runtime_of_cublas}));
    CHECK_FALSE(watch::is_of_vendor(rule, {}));
  }
  // What the program did is told to whoever asks next.
  for (const Rule rule : {Rule::device_fault, Rule::used_after_fork})
    CHECK_FALSE(watch::is_of_vendor(rule, {runtime, cublas}));
}

TEST_CASE("what a program cannot change is not reported", "[watch][owner]") {
  using watch::Rule;
  for (const Rule rule : {Rule::leaked, Rule::created_in_a_loop, Rule::query_of_completed}) {
    CHECK(watch::concerns_program(rule, Owner::program));
    for (const Owner other : {Owner::unknown, Owner::package, Owner::cuda})
      CHECK_FALSE(watch::concerns_program(rule, other));
  }
  for (const Rule rule : {Rule::timed_never_read, Rule::blocking_in_a_loop}) {
    for (const Owner other : {Owner::program, Owner::unknown, Owner::package})
      CHECK(watch::concerns_program(rule, other));
    CHECK_FALSE(watch::concerns_program(rule, Owner::cuda));
  }
  for (const Rule rule : {Rule::legacy_between_streams, Rule::wait_never_recorded})
    CHECK(watch::concerns_program(rule, Owner::cuda));
}
