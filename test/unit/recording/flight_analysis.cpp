// SPDX-License-Identifier: MIT
// The analysis of a flight recorder, on plain data.
#include "recording/flight_analysis.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Kind = FlightFinding::Kind;

namespace {

/// A stream with a mark at each place: "name 0", "name 1" and so on.
ObservedStream stream(const std::string& name, Position reached, Position submitted,
                      std::vector<ObservedWait> waits = {}) {
  ObservedStream made{.name = name, .reached = reached, .submitted = submitted, .waits = std::move(waits)};
  for (Position i = reached == 0 ? 0 : reached - 1; i < submitted; ++i)
    made.marks.push_back({i, {name + " " + std::to_string(i), 1s * (submitted - i)}});
  return made;
}

/// A wait for an event that was recorded after that many places.
ObservedWait event_wait(Position before, std::size_t on, Position position) {
  return {.before = before, .what = {}, .signals = {{on, position}}};
}

FlightReport analysed(std::vector<ObservedStream> streams, CUresult fault = CUDA_SUCCESS) {
  return analyse({.fault = fault, .streams = std::move(streams), .blocked_after = 100ms});
}

} // namespace

TEST_CASE("idle streams have no finding") {
  const FlightReport report = analysed({stream("a", 3, 3), stream("b", 0, 0)});
  CHECK(report.findings.empty());
  CHECK(report.streams[0].state == FlightState::idle);
  CHECK(report.streams[0].reached->name == "a 2");
  CHECK_FALSE(report.streams[0].next);
  CHECK_FALSE(report.streams[1].reached);
  CHECK(to_text(report) == "Nothing is pending.\n  stream 'a' is idle after 'a 2'\n  stream 'b' is idle\n");
}

TEST_CASE("a stream that may be done is neither idle nor a cause") {
  ObservedStream unknown = stream("a", 2, 3);
  unknown.submitted = 2;
  unknown.may_be_done = true;
  FlightReport report = analysed({unknown});
  CHECK(report.findings.empty());
  CHECK(report.streams[0].state == FlightState::unknown);
  CHECK(report.streams[0].next->name == "a 2");
  CHECK_THAT(to_text(report), ContainsSubstring("stream 'a' is perhaps before 'a 2'"));
  CHECK_THAT(to_json(report), ContainsSubstring(R"("state":"unknown")"));
  CHECK_THAT(to_svg(report), ContainsSubstring("unknown, perhaps before 'a 2'"));
  report = analysed({unknown}, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THAT(report.findings.at(0).text,
             ContainsSubstring("not finished when it failed: perhaps 'a 2' on stream 'a'"));
  report = analysed({unknown, stream("b", 0, 1)}, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THAT(report.findings.at(0).text, !ContainsSubstring("perhaps"));
}

TEST_CASE("a stream that waits for nothing is its own cause") {
  const FlightReport report = analysed({stream("a", 2, 5)});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::unfinished);
  CHECK(report.findings[0].text ==
        "stream 'a' has not reached 'a 2', which was submitted 3.0 s ago; the last mark reached is 'a 1'");
  CHECK(report.streams[0].pending == 3);
  CHECK(report.streams[0].state == FlightState::running);
}

TEST_CASE("waits are followed to the stream that waits for nothing") {
  const FlightReport report =
      analysed({stream("compute", 18, 20, {event_wait(18, 1, 17)}),
                stream("comm", 16, 18, {event_wait(16, 2, 4)}), stream("copy", 4, 5)});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].streams == std::vector<std::size_t>{2});
  CHECK(report.findings[0].held_up == 2);
  CHECK(report.streams[0].state == FlightState::waiting);
  REQUIRE(report.streams[0].waits.size() == 1);
  CHECK(report.streams[0].waits[0].what == "'comm 17'");
  CHECK(report.streams[0].waits[0].stream == 1u);
  CHECK_THAT(to_text(report),
             ContainsSubstring("stream 'compute' waits at 'compute 18' for 'comm 17' on stream "
                               "'comm', which waits at 'comm 16' for 'copy 4' on stream 'copy', "
                               "which was submitted 1.0 s ago and has not finished"));
}

TEST_CASE("a wait holds nothing up before its place, and after its signal") {
  SECTION("the stream has not come to the wait yet") {
    CHECK(analysed({stream("a", 1, 4, {event_wait(3, 1, 0)}), stream("b", 0, 1)}).streams[0].waits.empty());
  }
  SECTION("the stream is past the wait") {
    CHECK(analysed({stream("a", 3, 4, {event_wait(2, 1, 0)}), stream("b", 0, 1)}).streams[0].waits.empty());
  }
  SECTION("the signal is reached") {
    CHECK(analysed({stream("a", 2, 4, {event_wait(2, 1, 0)}), stream("b", 1, 1)}).streams[0].waits.empty());
  }
  SECTION("the wait is the last submission") {
    const FlightReport report = analysed({stream("a", 2, 2, {event_wait(2, 1, 0)}), stream("b", 0, 1)});
    CHECK(report.streams[0].state == FlightState::waiting);
    CHECK_THAT(to_text(report), ContainsSubstring("stream 'a' waits at the work after 'a 1' for 'b 0'"));
  }
}

TEST_CASE("an event that was recorded without a mark is named by the mark before it") {
  ObservedStream silent = stream("b", 1, 1);
  silent.submitted = 2; // the place of the record
  const FlightReport report = analysed({stream("a", 0, 1, {event_wait(0, 1, 1)}), silent});
  CHECK(report.streams[0].waits[0].what == "the work after 'b 0'");
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].text ==
        "stream 'b' has not reached the work after 'b 0'; the last mark reached is 'b 0'");
}

TEST_CASE("streams that wait for each other are a deadlock, named once") {
  const auto value = [](Position before, std::size_t on, Position position) {
    return ObservedWait{before, "value 1 of 'gate'", {{on, position}}};
  };
  const FlightReport report =
      analysed({stream("first", 1, 3, {event_wait(1, 1, 2)}), stream("a", 1, 3, {value(1, 2, 5)}),
                stream("b", 4, 6, {value(4, 1, 2)})});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::deadlock);
  CHECK(report.findings[0].streams == std::vector<std::size_t>{1, 2});
  CHECK(report.findings[0].held_up == 1);
  CHECK(report.findings[0].text == "deadlock: stream 'a' waits at 'a 1' for value 1 of 'gate', which comes "
                                   "later on stream 'b'; stream 'b' "
                                   "waits at 'b 4' for value 1 of 'gate', which comes later on stream 'a'");
  CHECK_THAT(to_text(report), ContainsSubstring("on stream 'a': a deadlock"));
}

TEST_CASE("a stream can wait for itself") {
  const FlightReport report = analysed({stream("a", 1, 3, {{1, "value 7 of 'x'", {{0, 2}}}})});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::deadlock);
  CHECK_THAT(report.findings[0].text, ContainsSubstring("which comes later on the same stream"));
}

TEST_CASE("a value that nobody writes is named, once the stream has come to it") {
  const ObservedWait gate{2, "value 1 of 'gate'", {}};
  const FlightReport report = analysed({stream("a", 2, 3, {gate})});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::no_signal);
  CHECK(report.findings[0].text ==
        "stream 'a' waits at 'a 2' for value 1 of 'gate', which no stream known to the "
        "recorder signals");
  CHECK_THAT(to_text(report), ContainsSubstring("Likely cause: stream 'a' waits"));
  CHECK(analysed({stream("a", 1, 3, {gate})}).streams[0].state == FlightState::running);
  // Nothing tells whether the wait is over.
  CHECK(analysed({stream("a", 2, 2, {gate})}).streams[0].state == FlightState::idle);
}

TEST_CASE("one of several signals is enough") {
  const auto report = [](Position reached) {
    return analysed({stream("a", 0, 1, {{0, "value 1 of 'x'", {{1, 0}, {2, 1}}}}), stream("b", 0, 1),
                     stream("c", reached, 2)});
  };
  CHECK(report(1).streams[0].state == FlightState::waiting);
  CHECK(report(2).streams[0].state == FlightState::running);
}

TEST_CASE("a thread that stays inside a call is blocked on a full launch queue") {
  ObservedStream full = stream("a", 1, 1000);
  full.call = {"launch 1000", 3s};
  const FlightReport report = analysed({full});
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[0].kind == Kind::full_queue);
  CHECK(report.findings[0].text == "a thread has been inside 'launch 1000' on stream 'a' for 3.0 s: the "
                                   "launch queue of the stream is full, "
                                   "because the stream has not reached 'a 1'");
  CHECK(report.findings[1].kind == Kind::unfinished);
  full.call->age = 50ms;
  CHECK(analysed({full}).findings.size() == 1);
  ObservedStream early = stream("a", 1, 3);
  early.call = {"launch 3", 3s};
  CHECK_THAT(analysed({early}).findings.at(0).text,
             ContainsSubstring("is full, or the call loads a kernel, which can wait for work that runs. The "
                               "stream has not reached 'a 1'"));
  ObservedStream idle = stream("a", 1, 1);
  idle.call = {"launch 1", 3s};
  CHECK_THAT(analysed({idle}).findings.at(0).text, ContainsSubstring("the driver does not return"));
}

TEST_CASE("a fault names what had not finished") {
  ObservedStream behind = stream("b", 1, 4);
  behind.exact = false;
  const FlightReport report =
      analysed({stream("a", 2, 3), behind, stream("c", 1, 1)}, CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::fault);
  CHECK(report.findings[0].streams == std::vector<std::size_t>{0, 1});
  CHECK(report.findings[0].text == "device work has failed: the driver answers 700; not finished when it "
                                   "failed: 'a 2' on stream 'a', 'b 1' "
                                   "on stream 'b' or one of the 2 marks after it");
  CHECK_THAT(to_text(report), ContainsSubstring("as of an earlier look"));
}

TEST_CASE("names in a text cannot begin an escape sequence or a line") {
  ObservedStream waits = stream("\x1b[2J", 0, 1, {event_wait(0, 1, 0)});
  waits.call = {"\x9b"
                "1m",
                3s};
  const std::string text = to_text(analysed({waits, stream("\n\xc2\x9b\xc3\xbc", 0, 1)}));
  CHECK(std::none_of(text.begin(), text.end(), [](char c) { return c == '\x1b' || c == '\x9b'; }));
  CHECK(std::count(text.begin(), text.end(), '\n') ==
        5); // two findings, what the first holds up, two streams
  CHECK_THAT(text, ContainsSubstring("??\xc3\xbc"));
}

TEST_CASE("a text grows with the number of streams, however many wait for each other") {
  const auto size_of = [](std::size_t streams) {
    std::vector<ObservedStream> chain;
    for (std::size_t i = 0; i < streams; ++i)
      chain.push_back(stream("s", 0, 1, {event_wait(0, std::min(i + 1, streams - 1), 0)}));
    chain.back().waits.clear();
    return to_text(analysed(std::move(chain))).size();
  };
  CHECK(size_of(600) < 11 * size_of(60));
  std::vector<ObservedStream> all_to_all(40, stream("s", 0, 1));
  for (std::size_t i = 0; i < all_to_all.size(); ++i)
    for (std::size_t j = 0; j < all_to_all.size(); ++j)
      if (j != i) all_to_all[i].waits.push_back(event_wait(0, j, 0));
  const FlightReport report = analysed(std::move(all_to_all));
  CHECK(report.findings.size() == 20); // pairs, and each of them in one finding
  CHECK(report.findings[0].kind == Kind::deadlock);
  CHECK(report.findings[0].held_up == 38);
  CHECK_THAT(
      to_text(analysed({stream("a", 0, 1, {event_wait(0, 1, 0)}), stream("b", 0, 1, {event_wait(0, 2, 0)}),
                        stream("c", 0, 1, {event_wait(0, 3, 0)}), stream("d", 0, 1, {event_wait(0, 4, 0)}),
                        stream("e", 0, 1, {event_wait(0, 5, 0)}), stream("f", 0, 1)})),
      ContainsSubstring("for 'e 0' on stream 'e', which also waits\n"));
}

TEST_CASE("the cause that holds up most streams comes first, then the oldest") {
  const FlightReport report = analysed({stream("young", 0, 1), stream("old", 0, 9), stream("held", 0, 1),
                                        stream("waits", 0, 1, {event_wait(0, 2, 0)})});
  REQUIRE(report.findings.size() == 3);
  CHECK(report.findings[0].streams == std::vector<std::size_t>{2});
  CHECK(report.findings[1].streams == std::vector<std::size_t>{1});
  CHECK(report.findings[2].streams == std::vector<std::size_t>{0});
}

TEST_CASE("ages have a unit and few digits") {
  CHECK(age_text(0ns) == "0.0 ms");
  CHECK(age_text(1'640us) == "1.6 ms");
  CHECK(age_text(640ms) == "640 ms");
  CHECK(age_text(31'240ms) == "31.2 s");
  CHECK(age_text(301s) == "301 s");
}

TEST_CASE("waits that were not traced and marks that were dropped are counted in the text") {
  ObservedStream lost = stream("a", 1, 3);
  lost.dropped = 4;
  const std::string text = to_text(analyse({.streams = {lost}, .untraced_waits = 2}));
  CHECK_THAT(text, ContainsSubstring("pending marks: 2; dropped marks: 4"));
  CHECK_THAT(text, ContainsSubstring("waits that could not be traced to a record: 2"));
}
