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

/// Also what leads from Python to the functions of a library.
bool is_python(const std::string& path) {
  return starts_with_any(name_of(path), {"python", "libpython", "_ctypes.", "libffi."});
}

bool is_of_cuda(const std::string& path) {
  return starts_with_any(name_of(path),
                         {"libnccl", "libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver",
                          "libcusparse", "libcutensor", "libcupti", "libnpp", "libnvjpeg", "libnvshmem"});
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

bool is_python_package(const std::string& frame) {
  return frame.find("/site-packages/") != std::string::npos ||
         frame.find("/dist-packages/") != std::string::npos ||
         frame.find("/lib/python3") != std::string::npos;
}

Owner owner_of(const std::optional<SourceFrame>& caller, const std::vector<std::string>& python,
               const std::string& program) {
  if (!caller || caller->library.empty()) return Owner::unknown;
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
    return owner == Owner::program;
  case watch::Rule::timed_never_read: // a package may do both because of how the program calls it
  case watch::Rule::blocking_in_a_loop:
    return owner != Owner::cuda;
  default:
    return true;
  }
}

} // namespace watch
