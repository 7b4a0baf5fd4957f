// The one check for an empty Context. Inside the library only.
#pragma once

#include <cuevent/context.hpp>

namespace cuevent {

inline void require_context(const Context& context, const char* call) {
  if (!context) throw InvalidContext(call, "the Context is empty: take one from Context::primary()");
}

} // namespace cuevent
