// SPDX-License-Identifier: MIT
#include "watch/jitter.hpp"

#include "report/finding_text.hpp"

#include <cstdio>
#include <cstdlib>

namespace cli {

void HeldCalls::see(const watch::CallFile& process, const watch::Call& call) {
  const auto entry = static_cast<std::uint32_t>(call.slot);
  if (call.verb() != watch::Verb::hold || entry >= watch::entry_count) return;
  const auto microseconds = static_cast<std::uint32_t>(call.value);
  if (microseconds > 0) ++count_;
  microseconds_ += microseconds;
  nlohmann::ordered_json hold{{"stream", static_cast<std::uint32_t>(call.number)},
                              {"submission", call.number >> 32U},
                              {"microseconds", microseconds},
                              {"time_us", call.slot >> 32U}};
  watch::Call held = call;
  held.entry = static_cast<std::uint16_t>(entry);
  if (plan_.starts_with('=')) // few, and somebody wants to know them
    hold["call"] = watch::json_of(texts_, process, held);
  else
    hold["call"] = {{"function", held.name()}, {"process", process.process()}, {"thread", call.thread}};
  hold["call"].erase("result"); // the hold came before the call
  holds_.push_back(std::move(hold));
}

std::string HeldCalls::sentence() const {
  if (plan_.empty() || plan_ == "=") return {};
  if (!can_hold_ && count_ == 0)
    return "jitter: nothing could be held, because this device has no memory operations, or the driver did "
           "not register memory for them";
  char text[100];
  std::snprintf(text, sizeof text, ": %lu hold%s, %.1f ms in all", count_, count_ == 1 ? "" : "s",
                static_cast<double>(microseconds_) / 1000);
  return "jitter " + plan_ + text;
}

nlohmann::ordered_json HeldCalls::json() const {
  return {{"plan", plan_}, {"can_hold", can_hold_}, {"holds", holds_}};
}

} // namespace cli
