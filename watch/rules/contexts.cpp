// SPDX-License-Identifier: MIT
#include "rules/contexts.hpp"

#include <utility>

namespace watch {

Handle Contexts::ended_by(const Call& call) {
  if (!call.succeeded()) return 0;
  switch (call.verb()) {
  case Verb::primary_retain: {
    Primary& primary = primary_[call.words[1]];
    primary.context = call.words[0];
    ++primary.retained;
    return 0;
  }
  case Verb::primary_release: { // the last release ends the context
    const auto primary = primary_.find(call.words[0]);
    if (primary == primary_.end() || primary->second.retained == 0 || --primary->second.retained > 0)
      return 0;
    return std::exchange(primary->second.context, 0);
  }
  case Verb::device_reset: { // it stays retained
    const auto primary = primary_.find(call.words[0]);
    return primary == primary_.end() ? 0 : primary->second.context;
  }
  case Verb::context_destroy:
    return call.words[0];
  default:
    return 0;
  }
}

} // namespace watch
