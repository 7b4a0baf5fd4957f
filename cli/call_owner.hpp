// SPDX-License-Identifier: MIT
// Whose code makes a call: the program's, or the code of a library that it uses.
#pragma once

#include "finding.hpp"
#include "watch_symbols.hpp"

#include <string>
#include <vector>

namespace cli {

enum class Owner {
  unknown,
  program,
  package, // a library in a folder of the system or of packages
  cuda,    // NCCL, cuBLAS and other libraries of CUDA
};

/// The first frame outside the CUDA runtime and the driver, or null.
const SourceFrame* first_frame_outside_cuda(const std::vector<SourceFrame>& stack);

/// Whether a Python frame `train.py:12 in step` is code of a package, or of Python itself.
bool is_python_package(const std::string& frame);

/// `python` are the Python frames of the stack, and `program` is the file that the process runs.
Owner owner_of(const std::vector<SourceFrame>& stack, const std::vector<std::string>& python,
               const std::string& program);

/// Whether the program can change what this rule finds in code of this owner.
bool concerns_program(watch::Rule rule, Owner owner);

} // namespace cli
