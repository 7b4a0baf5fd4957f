// SPDX-License-Identifier: MIT
// Names for return addresses.
#pragma once

#include "report/reader.hpp"

#include <memory>
#include <string>
#include <vector>

namespace watch {

/// The last part of a path.
std::string file_name(const std::string& path);

struct SourceFrame {
  std::string function; // empty if unknown
  std::string file;     // of the source; empty if unknown
  int line = 0, column = 0;
  std::string library; // the file of the program or library; empty for generated code
  std::uint64_t offset = 0;
  bool is_inlined = false; // into the frame that follows

  /// "train (train.cpp:12)", or "train (libtrain.so)", or "libtrain.so+0x1234".
  std::string text() const;

  /// The same for all copies that the compiler has made of one place in the source.
  std::string place() const;
};

/// Reads symbols and line numbers with libdw. Without libdw it knows only libraries and offsets.
class Symbols {
public:
  Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;
  ~Symbols();

  /// The function that makes the call, after those that were inlined into it, the innermost first.
  std::vector<SourceFrame> frames(const CallFile& process, std::uint64_t return_address);

private:
  struct Debug;
  std::unique_ptr<Debug> debug_;
};

} // namespace watch
