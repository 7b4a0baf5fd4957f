// SPDX-License-Identifier: MIT
// Which places of streams are known not to be reached. "Not known to be reached" is something else: only a
// probe, a thread that waits, or a query of the program says that work is pending.
#include "rules/stream_work.hpp"

#include <algorithm>

namespace watch {

StreamWork::Unreached StreamWork::known_unreached(const Moment& moment) const {
  Unreached unreached;
  for (const auto& [number, stream] : streams_) {
    if (const auto probed = stream.first_probed()) unreached[number] = *probed;
    if (stream.is_not_ready(moment.time) || (!stream.places.empty() && call_of(moment, stream))) {
      const Position last = stream.is_not_ready(moment.time) ? *stream.not_ready : stream.end() - 1;
      const auto [found, is_new] = unreached.try_emplace(number, last);
      if (!is_new) found->second = std::min(found->second, last);
    }
  }
  follow_waits(unreached);
  note_calls_under_way(moment, unreached);
  follow_waits(unreached);
  return unreached;
}

bool StreamWork::is_unreached(const Unreached& unreached, const StreamPlace& point) {
  const auto found = unreached.find(point.stream);
  return found != unreached.end() && point.position >= found->second;
}

/// What threads wait for. If it can be the work of one stream only, this work is pending.
void StreamWork::note_calls_under_way(const Moment& moment, Unreached& unreached) const {
  for (const CallUnderWay& each : moment.calls) {
    const Call& call = each.call;
    std::vector<StreamPlace> awaited;
    if (call.verb() == Verb::stream_synchronize) {
      if (const auto number = numbers_.find(call.stream()); number != numbers_.end())
        awaited.push_back({number->second, streams_.at(number->second).end()});
    } else if (call.verb() == Verb::event_synchronize) {
      if (const auto event = events_.find(call.event); event != events_.end())
        for (const StreamPlace& point : event->second.points)
          awaited.push_back({point.stream, point.position + 1});
    } else if (call.verb() == Verb::context_synchronize) {
      for (const auto& [number, stream] : streams_)
        if (known(stream).context == call.named_context) awaited.push_back({number, stream.end()});
    }
    std::erase_if(awaited, [&](const StreamPlace& end) {
      return end.position == 0 || is_reached({end.stream, end.position - 1});
    });
    if (awaited.size() != 1) continue;
    const StreamPlace last{awaited.front().stream, awaited.front().position - 1};
    if (!is_unreached(unreached, last)) unreached[last.stream] = last.position;
  }
}

/// The calls of a place come after its waits.
void StreamWork::follow_waits(Unreached& unreached) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [number, stream] : streams_) {
      const auto before = unreached.find(number);
      const Position end = before == unreached.end() ? stream.end() : before->second;
      for (Position position = stream.reached; position < end; ++position) {
        const std::vector<EventWait>& waits = stream.place(position).waits;
        if (std::none_of(waits.begin(), waits.end(),
                         [&](const EventWait& wait) { return is_unreached(unreached, wait.signal); }))
          continue;
        unreached[number] = position;
        changed = true;
        break;
      }
    }
  }
}

} // namespace watch
