// SPDX-License-Identifier: MIT
// Whose code makes a call: the program's, or the code of a library that it uses.
#pragma once

#include "report/symbols.hpp"
#include "rules/finding.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace watch {

enum class Owner {
  unknown,
  program,
  package, // a library in a folder of the system or of packages
  cuda,    // NCCL, cuBLAS and other libraries of CUDA
};

/// Whether the frame belongs to the driver or to the CUDA runtime, which may be linked statically.
bool is_cuda_runtime(const SourceFrame& frame);

/// Whether the frame belongs to a library of CUDA, its runtime or the driver.
bool is_of_vendor(const SourceFrame& frame);

/// Whether a finding of this rule, whose call has this stack, is about code of the vendor alone: no frame is
/// another one's, or the rule is about events or costs, and a library of the vendor makes the call. False if
/// the stack ends in the runtime, because the caller is not known.
bool is_of_vendor(Rule rule, const std::vector<SourceFrame>& stack);

/// The name of a function, without its result and arguments: "std::function<void ()>::operator()".
std::string_view qualified_name(std::string_view function);

/// Whether the frame leads from the program's own code to the driver: the CUDA runtime, cuevent, or the C++
/// library.
bool is_wrapper(const SourceFrame& frame);

/// Whether a thread or the process begins there.
bool is_start(const SourceFrame& frame);

/// The frame of a stack whose code makes the call: the innermost one that is no wrapper. Without the names of
/// inlined functions, it may be the function of the C++ library into which the caller was inlined. The number
/// of frames if no frame is known to make it. Frames outside of the innermost one that is no wrapper do not
/// matter.
std::size_t caller_among(const std::vector<SourceFrame>& stack);

/// Whether the file is Python, or leads from Python to the functions of a library.
bool is_python(const std::string& path);

/// Whether a Python frame `train.py:12 in step` is code of a package, or of Python itself.
bool is_python_package(const std::string& frame);

/// `caller` is the frame that caller_among() has chosen, `python` are the Python frames of the stack, and
/// `program` is the file that the process runs.
Owner owner_of(const std::optional<SourceFrame>& caller, const std::vector<std::string>& python,
               const std::string& program);

/// Whether the program can change what this rule finds in code of this owner.
bool concerns_program(watch::Rule rule, Owner owner);

} // namespace watch
