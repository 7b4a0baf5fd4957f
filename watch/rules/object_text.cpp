// SPDX-License-Identifier: MIT
#include "rules/object_text.hpp"

#include <cstdio>

namespace watch {

std::string hexadecimal(Handle handle) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(handle));
  return text;
}

std::string event_text(Handle event) { return "event " + hexadecimal(event); }

std::string stream_text(const StreamKey& stream) {
  if (stream.handle == 1) return "the legacy stream of context " + hexadecimal(stream.context);
  if (stream.handle == 2)
    return "the per-thread stream of thread " + std::to_string(stream.thread) + " in context " +
           hexadecimal(stream.context);
  return "stream " + hexadecimal(stream.handle);
}

} // namespace watch
