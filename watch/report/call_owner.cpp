// SPDX-License-Identifier: MIT
#include "report/call_owner.hpp"

#include <algorithm>
#include <filesystem>

namespace watch {

namespace {

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

template <std::size_t Count>
bool starts_with_any(const std::string& text, const char* const (&starts)[Count]) {
  return std::any_of(std::begin(starts), std::end(starts),
                     [&](const char* start) { return text.starts_with(start); });
}

/// A class of a package that a program uses as its own: an event that it makes is the program's. A wait for a
/// stream makes an event too, which the program cannot keep.
bool is_event_class(const std::string& frame) {
  return (frame.find("/torch/cuda/streams.py:") != std::string::npos ||
          frame.find("/numba/cuda/cudadrv/driver.py:") != std::string::npos) &&
         !frame.ends_with(" in wait_stream");
}

bool is_of_cuda(const std::string& path) {
  return starts_with_any(
      name_of(path),
      {"libnccl",     "libcublas", "libcudnn",    "libcufft",   "libcufile",  "libcurand",    "libcusolver",
       "libcusparse", "libcudss",  "libcutensor", "libcupti",   "libnpp",     "libnvjpeg",    "libnvshmem",
       "libnvblas",   "libnvcomp", "libnvcuvid",  "libnvinfer", "libnvidia-", "libnvJitLink", "libnvrtc"});
}

bool is_standard_library(const SourceFrame& frame) {
  return starts_with_any(name_of(frame.library), {"libstdc++.so", "libc++.so", "libgcc_s.so"});
}

/// Rules about events that one library makes and uses: no function of the vendor's libraries takes an event.
bool is_about_events(Rule rule) {
  switch (rule) {
  case Rule::wait_never_recorded:
  case Rule::wait_before_record:
  case Rule::record_replaced:
  case Rule::elapsed_without_timing:
  case Rule::elapsed_never_recorded:
  case Rule::elapsed_two_contexts:
  case Rule::elapsed_too_early:
  case Rule::elapsed_reversed:
  case Rule::elapsed_without_work:
    return true;
  default:
    return false;
  }
}

/// A Python that is not the system's, as in a Conda environment, has the libraries of its packages in ../lib.
bool is_of_python(const std::string& path, const std::string& program) {
  if (!is_python(program)) return false;
  const std::string folder = std::filesystem::path(program).parent_path().parent_path();
  return folder.size() > 1 && path.starts_with(folder + "/lib");
}

bool is_package(const std::string& path) {
  return starts_with_any(path, {"/usr/", "/lib", "/opt/"}) ||
         path.find("/site-packages/") != std::string::npos ||
         path.find("/dist-packages/") != std::string::npos;
}

} // namespace

bool is_cuda_runtime(const SourceFrame& frame) {
  return starts_with_any(name_of(frame.library), {"libcudart", "libcuda.so"}) ||
         starts_with_any(frame.function, {"cuda", "libcudart_static"});
}

bool is_of_vendor(const SourceFrame& frame) {
  return is_of_cuda(frame.library) || starts_with_any(name_of(frame.library), {"libcudart", "libcuda.so"}) ||
         starts_with_any(frame.function, {"libcudart_static", "ncclStrongStream"}); // linked statically
}

bool is_of_vendor(Rule rule, const std::vector<SourceFrame>& stack) {
  // The program is at fault, whoever is told first.
  if (rule == Rule::device_fault || rule == Rule::used_after_fork) return false;
  const auto is_vendors = [](const SourceFrame& frame) { return is_of_vendor(frame); };
  if (is_about_events(rule) || !concerns_program(rule, Owner::cuda)) {
    const auto caller = std::find_if_not(stack.begin(), stack.end(), is_wrapper);
    if (caller != stack.end()) return is_vendors(*caller);
  }
  return std::any_of(stack.begin(), stack.end(), is_vendors) &&
         std::all_of(stack.begin(), stack.end(),
                     [&](const auto& frame) { return is_vendors(frame) || is_standard_library(frame); });
}

std::string_view qualified_name(std::string_view function) {
  int depth = 0;
  std::size_t end = function.rfind(')');
  for (std::size_t i = end == std::string_view::npos ? 0 : end + 1; i-- > 0;) {
    const char c = function[i];
    depth += c == ')' || c == '>' || c == '}';
    depth -= c == '(' || c == '<' || c == '{';
    if (depth == 0 && c == '(' && i > 0) {
      function = function.substr(0, i);
      break;
    }
  }
  depth = 0;
  for (std::size_t i = function.size(); i-- > 0;) {
    const char c = function[i];
    depth += c == ')' || c == '>' || c == '}';
    depth -= c == '(' || c == '<' || c == '{';
    if (depth == 0 && c == ' ') return function.substr(i + 1);
  }
  return function;
}

bool is_wrapper(const SourceFrame& frame) {
  if (is_cuda_runtime(frame) || name_of(frame.library).starts_with("libcuevent")) return true;
  const std::string_view name = qualified_name(frame.function);
  return name.ends_with("}::_FUN") || // makes a pointer to a function of a lambda
         name.starts_with("std::") || name.starts_with("cuevent::") || name.starts_with("__gnu_cxx::");
}

bool is_python(const std::string& path) {
  return starts_with_any(name_of(path), {"python", "libpython", "_ctypes.", "libffi."});
}

bool is_python_package(const std::string& frame) {
  return frame.find("/site-packages/") != std::string::npos ||
         frame.find("/dist-packages/") != std::string::npos ||
         frame.find("/lib/python3") != std::string::npos;
}

Owner owner_of(const std::optional<SourceFrame>& caller, const std::vector<std::string>& python,
               const std::string& program) {
  if (!caller || caller->library.empty()) return Owner::unknown;
  if (!python.empty() && is_event_class(python.front())) {
    const auto user = std::find_if_not(python.begin(), python.end(), is_event_class);
    return user == python.end() || is_python_package(*user) ? Owner::package : Owner::program;
  }
  const std::string& library = caller->library;
  if (is_of_cuda(library)) return Owner::cuda;
  if (is_python(library)) {
    if (python.empty()) return Owner::unknown;
    return is_python_package(python.front()) ? Owner::package : Owner::program;
  }
  if (library == program) return Owner::program;
  return is_package(library) || is_of_python(library, program) ? Owner::package : Owner::program;
}

bool concerns_program(watch::Rule rule, Owner owner) {
  switch (rule) {
  case watch::Rule::leaked:
  case watch::Rule::created_in_a_loop:
  case watch::Rule::query_of_completed:
  case watch::Rule::wait_for_own_stream:
    return owner == Owner::program;
  case watch::Rule::timed_never_read: // a package may do both because of how the program calls it
  case watch::Rule::blocking_in_a_loop:
  case watch::Rule::pageable_copy:
  case watch::Rule::allocated_in_a_loop:
  case watch::Rule::serial_host_functions:
    return owner != Owner::cuda;
  default:
    return true;
  }
}

} // namespace watch
