// SPDX-License-Identifier: MIT
// A program of version 1.1, or with OLD_HEADER of version 1.0.
#include "recorder.hpp"

#include <cstdio>

int main() {
  growing::Options options;
  options.rings = 3;
  const growing::Report report = growing::Recorder(options).report();
  bool right = report.streams.size() == 3;
  for (const growing::Stream& stream : report.streams) {
    right = right && stream.name == "ring";
#ifndef OLD_HEADER
    right = right && stream.colour == 7;
#endif
  }
  if (!right) std::puts("the program and the library have different classes");
  return right ? 0 : 1;
}
