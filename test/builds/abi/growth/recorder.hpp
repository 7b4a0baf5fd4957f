// SPDX-License-Identifier: MIT
// How public classes get members in a minor version. This is the header of version 1.1. With OLD_HEADER it is
// the header of version 1.0.
#pragma once

#include <string>
#include <vector>

namespace growing { inline namespace v1 {

#ifdef OLD_HEADER
struct Options {
  unsigned rings = 2;
};
struct Stream {
  std::string name;
};
struct Report {
  std::vector<Stream> streams;
};
#else
// The tag becomes a part of the linker's name of each function that takes or returns the class.
struct [[gnu::abi_tag("v1_1")]] Options {
  unsigned rings = 2;
  unsigned colour = 7;
};
struct [[gnu::abi_tag("v1_1")]] Stream {
  std::string name;
  unsigned colour = 0;
};
struct [[gnu::abi_tag("v1_1")]] Report { // because it has members of a class with the tag
  std::vector<Stream> streams;
};
#endif

class Recorder {
public:
  explicit Recorder(const Options& options);
  Report report() const;

private:
  void* state_;
};

}} // namespace growing::v1
