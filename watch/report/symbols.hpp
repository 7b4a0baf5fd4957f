// SPDX-License-Identifier: MIT
// Names for return addresses.
#pragma once

#include "report/reader.hpp"

#include <memory>
#include <string>

namespace watch {

struct SourceFrame {
  std::string function; // empty if unknown
  std::string file;     // of the source; empty if unknown
  int line = 0;
  std::string library; // the file of the program or library; empty for generated code
  std::uint64_t offset = 0;

  /// "train (train.cpp:12)", or "train (libtrain.so)", or "libtrain.so+0x1234".
  std::string text() const;
};

/// Reads symbols and line numbers with libdw. Without libdw it knows only libraries and offsets.
class Symbols {
public:
  Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;
  ~Symbols();

  SourceFrame frame(const CallFile& process, std::uint64_t return_address);

private:
  struct Debug;
  std::unique_ptr<Debug> debug_;
};

} // namespace watch
