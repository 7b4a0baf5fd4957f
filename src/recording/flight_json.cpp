// SPDX-License-Identifier: MIT
// A report as JSON.
#include <cuevent/flight_report.hpp>

#include "core/json_list.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

using Kind = FlightFinding::Kind;

const char* kind_name(Kind kind) {
  switch (kind) {
  case Kind::fault:
    return "fault";
  case Kind::no_answer:
    return "no_answer";
  case Kind::deadlock:
    return "deadlock";
  case Kind::no_signal:
    return "no_signal";
  case Kind::full_queue:
    return "full_queue";
  case Kind::unfinished:
    break;
  }
  return "unfinished";
}

const char* state_name(FlightState state) {
  switch (state) {
  case FlightState::idle:
    return "idle";
  case FlightState::running:
    return "running";
  case FlightState::ended:
    return "ended";
  case FlightState::unknown:
    return "unknown";
  case FlightState::waiting:
    break;
  }
  return "waiting";
}

/// A FlightMark or a FlightCall.
template <class Aged>
std::string json_aged(const std::optional<Aged>& aged) {
  if (!aged) return "null";
  return JsonList()("name", json_string(aged->name))("age", std::to_string(aged->age.count())).object();
}

std::string json_wait(const FlightWait& wait) {
  return JsonList()("what", json_string(wait.what))("stream",
                                                    wait.stream ? std::to_string(*wait.stream) : "null")
      .object();
}

std::string json_stream(const FlightStream& stream) {
  return JsonList()("name", json_string(stream.name))("state", json_string(state_name(stream.state)))(
             "reached", json_aged(stream.reached))("next", json_aged(stream.next))(
             "pending", std::to_string(stream.pending))("waits", json_array(stream.waits, json_wait))(
             "call", json_aged(stream.call))("dropped", std::to_string(stream.dropped))(
             "exact", stream.exact ? "true" : "false")
      .object();
}

std::string json_finding(const FlightFinding& finding) {
  return JsonList()("kind", json_string(kind_name(finding.kind)))(
             "streams", json_array(finding.streams, [](std::size_t each) { return std::to_string(each); }))(
             "held_up", std::to_string(finding.held_up))("text", json_string(finding.text))
      .object();
}

} // namespace

std::string to_json(const FlightReport& report) {
  return JsonList()("fault", std::to_string(report.fault))("no_answer", std::to_string(report.no_answer))(
             "streams", json_array(report.streams, json_stream))("findings",
                                                                 json_array(report.findings, json_finding))(
             "progress", std::to_string(report.progress))("untraced_waits",
                                                          std::to_string(report.untraced_waits))
      .object();
}

}} // namespace cuevent::CUEVENT_ABI
