// SPDX-License-Identifier: MIT
#include "report/hang_collectives.hpp"

#include "rules/object_text.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace watch {

namespace {

using Json = nlohmann::ordered_json;
using cuevent::FlightFinding;
using cuevent::FlightReport;
using cuevent::FlightState;

/// "idle"; "in" a collective; "send_receive"; or "held" up by other work.
const char* state_of(const CollectivePosition& position, FlightState state) {
  if (!position.is_pending) return "idle";
  if (state == FlightState::waiting || position.next == NcclWork::none) return "held";
  return position.next == NcclWork::collective ? "in" : "send_receive";
}

} // namespace

Json communicators_json(const std::vector<CollectivePosition>& positions, const FlightReport& report) {
  std::vector<std::size_t> order(std::min(positions.size(), report.streams.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return positions[a].first < positions[b].first; });
  Json all = Json::array();
  for (const std::size_t index : order) {
    const CollectivePosition& position = positions[index];
    if (position.sequence->count() == 0) continue;
    Json names = Json::array(), last = Json::array();
    std::map<std::string, std::size_t> places;
    for (const CollectiveSequence::Collective& each : position.sequence->last()) {
      const auto [place, is_new] = places.try_emplace(each.name, names.size());
      if (is_new) names.push_back(each.name);
      last.push_back(place->second);
    }
    all.push_back({{"stream", report.streams[index].name},
                   {"state", state_of(position, report.streams[index].state)},
                   {"submitted", position.sequence->count()},
                   {"reached", position.reached},
                   {"reached_next", position.reached_next},
                   {"hash", hexadecimal(position.sequence->hash())},
                   {"names", std::move(names)},
                   {"last", std::move(last)}});
  }
  return all;
}

Json causes_json(const std::vector<CollectivePosition>& positions, const FlightReport& report) {
  Json all = Json::array();
  for (const FlightFinding& finding : report.findings) {
    const bool is_nccl = finding.kind == FlightFinding::Kind::unfinished &&
                         std::any_of(finding.streams.begin(), finding.streams.end(), [&](std::size_t each) {
                           return each < positions.size() && positions[each].next != NcclWork::none;
                         });
    all.push_back(
        {{"text", finding.text}, {"nccl", is_nccl}, {"fault", finding.kind == FlightFinding::Kind::fault}});
  }
  return all;
}

} // namespace watch
