// SPDX-License-Identifier: MIT
// A flight report as JSON and as a picture.
#include <cuevent/flight_report.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <string>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

/// `waits` waits for `runs`.
FlightReport waiting() {
  FlightStream waits{.name = "waits \"<&]]>\x01\xe9\xc3\xa9", .state = FlightState::waiting};
  waits.next = {"step 1", 2us};
  waits.waits.push_back({"'work'", 1});
  waits.waits.push_back({"value 1 of 'gate'", {}});
  FlightStream runs{.name = "runs", .state = FlightState::running};
  runs.reached = {"before", 1s};
  runs.next = {"work", 3ns};
  runs.pending = 2;
  runs.call = {"launch", 5ns};
  runs.dropped = 7;
  runs.exact = false;
  return {.fault = CUDA_ERROR_ILLEGAL_ADDRESS,
          .no_answer = CUDA_ERROR_DEINITIALIZED,
          .streams = {waits, runs, {.name = "rests"}},
          .findings = {{FlightFinding::Kind::deadlock, {0, 1}, 2, "text"}},
          .progress = 9,
          .untraced_waits = 4};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

} // namespace

TEST_CASE("a report as JSON has every member of the report") {
  CHECK(to_json(waiting()) ==
        "{\"fault\":700,\"no_answer\":4,"
        "\"streams\":[{\"name\":\"waits \\u0022<&]]>\\u0001\xef\xbf\xbd\xc3\xa9\","
        R"("state":"waiting","reached":null,)"
        R"("next":{"name":"step 1","age":2000},"pending":0,"waits":[{"what":"'work'","stream":1},)"
        R"({"what":"value 1 of 'gate'","stream":null}],"call":null,"dropped":0,"exact":true},)"
        R"({"name":"runs","state":"running","reached":{"name":"before","age":1000000000},)"
        R"("next":{"name":"work","age":3},"pending":2,"waits":[],"call":{"name":"launch","age":5},)"
        R"("dropped":7,"exact":false},)"
        R"({"name":"rests","state":"idle","reached":null,"next":null,"pending":0,"waits":[],"call":null,)"
        R"("dropped":0,"exact":true}],)"
        R"("findings":[{"kind":"deadlock","streams":[0,1],"held_up":2,"text":"text"}],)"
        R"("progress":9,"untraced_waits":4})");
  CHECK(to_json({}) ==
        R"({"fault":0,"no_answer":0,"streams":[],"findings":[],"progress":0,"untraced_waits":0})");
}

TEST_CASE("a picture has a box for each stream and an arrow for each wait") {
  const std::string picture = to_svg(waiting());
  CHECK(picture.starts_with("<svg xmlns="));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(count(picture, "<rect class=\"") == 4); // the paper too
  CHECK(count(picture, " cause\"") == 2);
  CHECK(count(picture, "class=\"arrow\"") == 1);
  // From the lower half of the first box to the upper half of the second.
  CHECK(count(picture, R"("M140 101C99.95 101 99.95 163 139 163")") == 1);
  CHECK(count(picture, "waits &quot;&lt;&amp;]]&gt;??\xc3\xa9") == 1);
  CHECK(count(picture, "]]>") == 0);
  CHECK(count(to_svg({}), "nothing is pending") == 2);
}
