// SPDX-License-Identifier: MIT
// Reads a trace file like a viewer.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace test {

struct ParsedSlice {
  std::string track, name;
  std::vector<std::string> around; // the outermost slice first
  double begin = 0, end = 0;       // in microseconds
  double last_flow = -1;           // a viewer finds no slice at the slice's end
};

struct ParsedFlow {
  std::string from, to; // the names of the slices
  double start = 0, finish = 0;
};

/// Requires that all slices nest, and that each flow has both ends, in order and each inside a slice.
class ParsedTrace {
public:
  explicit ParsedTrace(const std::string& text) {
    const auto events = nlohmann::json::parse(text).at("traceEvents");
    std::map<Thread, std::vector<nlohmann::json>> threads;
    for (const auto& event : events) {
      if (event.value("name", "") == "process_name") continue;
      const Thread thread{event.at("pid"), event.at("tid")};
      if (event.at("ph") == "M") {
        if (event.at("name") == "thread_name") names_[thread] = event.at("args").at("name");
      } else {
        threads[thread].push_back(event);
      }
    }
    for (auto& [thread, of_thread] : threads) {
      INFO("thread " << thread.second);
      REQUIRE(names_.contains(thread));
      read(names_[thread], of_thread);
    }
    for (const auto& [id, flow] : flows_by_id_) {
      INFO("flow " << id << ", " << flow.ends.from << " to " << flow.ends.to);
      REQUIRE(flow.starts == 1);
      REQUIRE(flow.finishes == 1);
      REQUIRE(flow.ends.start <= flow.ends.finish);
      flows.push_back(flow.ends);
    }
  }

  std::size_t count(const std::string& track, const std::string& name) const {
    return static_cast<std::size_t>(
        std::count_if(slices.begin(), slices.end(),
                      [&](const ParsedSlice& slice) { return slice.track == track && slice.name == name; }));
  }
  const ParsedSlice& slice(const std::string& track, const std::string& name) const {
    const auto found = std::find_if(slices.begin(), slices.end(), [&](const ParsedSlice& slice) {
      return slice.track == track && slice.name == name;
    });
    REQUIRE(found != slices.end());
    return *found;
  }

  std::vector<ParsedSlice> slices;
  std::vector<ParsedFlow> flows;

private:
  using Thread = std::pair<int, int>;
  struct Flow {
    int starts = 0, finishes = 0;
    ParsedFlow ends;
  };

  void read(const std::string& track, const std::vector<nlohmann::json>& events) {
    REQUIRE(std::is_sorted(events.begin(), events.end(),
                           [](const auto& a, const auto& b) { return a.at("ts") < b.at("ts"); }));
    std::vector<ParsedSlice> open;
    for (const auto& event : events) {
      INFO(event.dump());
      const std::string phase = event.at("ph");
      const double time = event.at("ts");
      REQUIRE(time >= 0);
      if (phase == "B") {
        ParsedSlice slice{.track = track, .name = event.at("name"), .around = {}, .begin = time};
        for (const ParsedSlice& outer : open)
          slice.around.push_back(outer.name);
        open.push_back(slice);
        continue;
      }
      REQUIRE(!open.empty());
      if (phase != "E") open.back().last_flow = time;
      if (phase == "E") {
        open.back().end = time;
        REQUIRE((open.back().last_flow < time || open.back().begin == time));
        slices.push_back(open.back());
        open.pop_back();
      } else if (phase == "s") {
        Flow& flow = flows_by_id_[event.at("id")];
        ++flow.starts;
        flow.ends.from = open.back().name;
        flow.ends.start = time;
      } else {
        REQUIRE(phase == "f");
        REQUIRE(event.at("bp") == "e");
        Flow& flow = flows_by_id_[event.at("id")];
        ++flow.finishes;
        flow.ends.to = open.back().name;
        flow.ends.finish = time;
      }
    }
    REQUIRE(open.empty());
  }

  std::map<Thread, std::string> names_;
  std::map<int, Flow> flows_by_id_;
};

} // namespace test
