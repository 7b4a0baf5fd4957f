// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace cuevent::sim {

/// What a program asked for and the simulator does not model, in a file that all processes of a run share.
/// The file has a line for each process, for each name that a process asked for, and for the calls of each
/// process that ends. Used under the computer's lock.
class Report {
public:
  /// Names the file, and writes the line of this process. Returns a sentence if the file must not be written.
  std::string open(std::string_view path);

  /// The program called a function. The caller is named if the return address is known. Returns false if the
  /// process has reported the same before.
  bool add_call(const char* function, const std::string& what, const void* return_address);
  /// The program asked cuGetProcAddress for the function, which does not find it.
  void add_question(const char* function);
  /// The process has a driver whose answers nobody has measured: 13020 for CUDA 13.2.
  void add_unmeasured_driver(int version);
  /// The program, or a library of it, asks for what only a CUDA runtime knows. Returns false if the process
  /// has reported the same before.
  bool add_runtime(const std::string& library);
  void add_end(unsigned long long calls, const std::map<std::string, unsigned long long>& kernels);
  bool is_written() const { return !path_.empty(); }
  /// What was called since the last time, each once, in the order of names, with the first caller.
  std::map<std::string, std::string> take_calls();

private:
  bool is_new(std::string_view kind, const std::string& name);
  void write(std::string_view kind, const std::string& fields);

  static constexpr std::size_t most_names = 1000; // of a process
  std::set<std::string> said_;
  std::map<std::string, std::string> calls_;
  std::string path_; // empty without a file
  std::string program_;
  int process_ = 0;
  dev_t device_ = 0; // of the file, and its number there
  ino_t file_ = 0;
};

/// "f in libexample.so", or "libexample.so+0x1234" for a function that its library does not export.
std::string text_of_caller(const void* return_address);

/// The file of the library that contains the address, or "the program".
std::string library_that_contains(const void* address);

/// "step(int*)" for "_Z4stepPi".
std::string readable_kernel(const std::string& name);

/// The address to which the current driver call returns: the first one outside the simulator's library. Null
/// if the simulator is a part of the program.
const void* caller_of_driver();

} // namespace cuevent::sim
