// SPDX-License-Identifier: MIT
#include "report/call_owner.hpp"

#include <algorithm>
#include <filesystem>

namespace watch {

namespace {

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
      file_name(path),
      {"libnccl",     "libcublas", "libcudnn",    "libcufft",   "libcufile",  "libcurand",    "libcusolver",
       "libcusparse", "libcudss",  "libcutensor", "libcupti",   "libnpp",     "libnvjpeg",    "libnvshmem",
       "libnvblas",   "libnvcomp", "libnvcuvid",  "libnvinfer", "libnvidia-", "libnvJitLink", "libnvrtc"});
}

bool is_standard_library(const SourceFrame& frame) {
  return starts_with_any(file_name(frame.library), {"libstdc++.so", "libc++.so", "libgcc_s.so"});
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

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool is_in_python_package(const std::string& path) {
  return contains(path, "/site-packages/") || contains(path, "/dist-packages/");
}

/// A header of the system or of a package: a function in it is not the program's, even if it is compiled into
/// the program. The program itself may lie in /usr/src or /opt.
bool is_header_of_a_package(const std::string& source) {
  return starts_with_any(source, {"/usr/include/", "/usr/lib", "/usr/local/include/", "/usr/local/cuda"}) ||
         contains(source, "/c++/") || is_in_python_package(source);
}

bool is_cpp_library(const std::string& path) {
  return starts_with_any(file_name(path), {"libstdc++.", "libc++."});
}

/// Makes a pointer to a function of a lambda.
bool is_lambda_pointer(const SourceFrame& frame) {
  return qualified_name(frame.function).ends_with("}::_FUN");
}

/// The name is of a function of the C++ library. If its line lies in another file, code of that file was
/// inlined into it.
bool is_of_cpp_library(const SourceFrame& frame) {
  const std::string_view name = qualified_name(frame.function);
  return (name.starts_with("std::") || name.starts_with("__gnu_cxx::")) &&
         (frame.file.empty() || is_header_of_a_package(frame.file));
}

bool is_package(const std::string& path) {
  return starts_with_any(path, {"/usr/", "/lib", "/opt/"}) || is_in_python_package(path);
}

bool is_in_driver(const SourceFrame& frame) { return file_name(frame.library).starts_with("libcuda.so"); }

/// The runtime may be linked statically, and then has this in the names of its functions.
bool is_runtime_library(const SourceFrame& frame) {
  return is_in_driver(frame) || file_name(frame.library).starts_with("libcudart") ||
         frame.function.starts_with("libcudart_static");
}

} // namespace

bool is_cuda_runtime(const SourceFrame& frame) {
  if (is_runtime_library(frame)) return true;
  // The functions of the runtime have no lines, and no arguments in their symbols. Others that are named like
  // them are the program's, or come from a header of the toolkit.
  const std::string& name = frame.function;
  const bool has_its_name = name.size() > 4 && name.starts_with("cuda") && name[4] >= 'A' && name[4] <= 'Z';
  const bool is_in_header = starts_with_any(file_name(frame.file), {"cuda_runtime"});
  return has_its_name && (is_in_header || (frame.file.empty() && name.find('(') == std::string::npos));
}

bool is_of_vendor(const SourceFrame& frame) {
  return is_of_cuda(frame.library) || is_runtime_library(frame) ||
         frame.function.starts_with("ncclStrongStream"); // linked statically
}

bool is_of_vendor(Rule rule, const std::vector<SourceFrame>& stack) {
  // The program is at fault, whoever is told first.
  if (rule == Rule::device_fault || rule == Rule::used_after_fork) return false;
  const auto is_vendors = [](const SourceFrame& frame) { return is_of_vendor(frame); };
  if (is_about_events(rule) || !concerns_program(rule, Owner::cuda)) {
    const auto caller = std::find_if_not(stack.begin(), stack.end(), is_wrapper);
    if (caller != stack.end()) return is_vendors(*caller);
  }
  // A runtime does nothing by itself. If the stack ends in it, because the caller has no frame pointers, the
  // caller is not known.
  if (!stack.empty() && is_runtime_library(stack.back()) && !is_in_driver(stack.back()) &&
      !is_of_cuda(stack.back().library))
    return false;
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
      const bool is_part_of_name = function.substr(0, i).ends_with("operator"); // of operator()
      function = function.substr(0, is_part_of_name ? i + 2 : i);
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
  if (is_cuda_runtime(frame) || is_cpp_library(frame.library) || is_header_of_a_package(frame.file))
    return true;
  const std::string_view name = qualified_name(frame.function);
  return is_of_cpp_library(frame) || is_lambda_pointer(frame) || name.starts_with("cuevent::") ||
         name.starts_with("cuda::") || file_name(frame.library).starts_with("libcuevent");
}

bool is_start(const SourceFrame& frame) {
  return frame.function == "_start" || frame.function.starts_with("__libc_start") ||
         frame.function == "start_thread" || frame.function.starts_with("__clone") ||
         frame.function == "clone3" || frame.function == "execute_native_thread_routine";
}

std::size_t caller_among(const std::vector<SourceFrame>& stack) {
  const auto first = std::find_if_not(stack.begin(), stack.end(), is_wrapper);
  const bool ends_there = first == stack.end() || is_start(*first);
  // Neither the C++ library nor a pointer to a lambda calls the driver: what does was inlined into it. For a
  // function of the C++ library, its own caller says more if it is in the same file.
  const auto inlining = std::find_if(stack.begin(), first, [](const SourceFrame& frame) {
    return is_lambda_pointer(frame) || (is_of_cpp_library(frame) && !is_cpp_library(frame.library));
  });
  if (inlining != first &&
      (ends_there || is_lambda_pointer(*inlining) || first->library != inlining->library))
    return static_cast<std::size_t>(inlining - stack.begin());
  return ends_there ? stack.size() : static_cast<std::size_t>(first - stack.begin());
}

bool is_python(const std::string& path) {
  return starts_with_any(file_name(path), {"python", "libpython", "_ctypes.", "libffi."});
}

bool is_python_package(const std::string& frame) {
  return is_in_python_package(frame) || contains(frame, "/lib/python3");
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
