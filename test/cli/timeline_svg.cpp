// SPDX-License-Identifier: MIT
#include "timeline_svg.hpp"

#include "training_model.hpp"

#include <cuevent/sim.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <regex>

namespace {

using Catch::Matchers::ContainsSubstring;
using cli::Recording;
using cuevent::DeviceTime;
using cuevent::StageId;
using cuevent::StreamId;

struct Box {
  std::string text;
  double left, right, top, bottom;
  bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// The positions of the texts, in a rather wide font.
std::vector<Box> texts_of(const std::string& svg) {
  static const std::regex pattern(
      R"re(<text x="([0-9.]+)" y="([0-9.]+)"(?: class="([^"]*)")?>([^<]*)</text>)re");
  static const std::regex entity("&[^;]*;");
  std::vector<Box> boxes;
  for (std::sregex_iterator it(svg.begin(), svg.end(), pattern), end; it != end; ++it) {
    const std::string kind = (*it)[3], text = std::regex_replace((*it)[4].str(), entity, "?");
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]), size = kind == "title" ? 16 : 12;
    const double width = 0.6 * size * static_cast<double>(text.size());
    const double left = kind == "tick"                             ? x - width / 2
                        : kind.find("number") != std::string::npos ? x - width
                                                                   : x;
    boxes.push_back({text, left, left + width, y - 0.8 * size, y + 0.2 * size});
  }
  const std::regex start("<text ");
  REQUIRE(std::distance(std::sregex_iterator(svg.begin(), svg.end(), start), std::sregex_iterator()) ==
          static_cast<std::ptrdiff_t>(boxes.size()));
  return boxes;
}

std::string drawn(const Recording& recording, std::size_t runs = 4) {
  return cli::timeline_svg(recording, cli::timeline_of(recording), runs);
}

void check_texts(const std::string& svg) {
  const std::vector<Box> boxes = texts_of(svg);
  REQUIRE(!boxes.empty());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    INFO(boxes[i].text);
    CHECK(boxes[i].left >= 0);
    CHECK(boxes[i].right <= 1000);
    for (std::size_t j = 0; j < i; ++j) {
      INFO(boxes[j].text);
      CHECK(!boxes[i].overlaps(boxes[j]));
    }
  }
}

/// Stages one after the other, each twice as long as the previous one, on `streams` streams.
Recording growing(unsigned stages, unsigned streams, const std::string& name) {
  Recording recording{.title = "growing", .device = "none"};
  double time = 0, length = 10;
  for (unsigned i = 0; i < streams; ++i)
    recording.report.streams.push_back({.name = name + std::to_string(i)});
  for (unsigned i = 0; i < stages; ++i) {
    recording.report.stages.push_back({.name = name + std::to_string(i), .count = 1});
    recording.report.spans.push_back({.number = i + 1,
                                      .stage = StageId(i),
                                      .stream = StreamId(i % streams),
                                      .begin = DeviceTime(time),
                                      .end = DeviceTime(time + length)});
    time += length;
    length *= 2;
  }
  return recording;
}

} // namespace

TEST_CASE("the picture of a training loop shows streams, stages and waits, and no text overlaps another") {
  cuevent::sim::Machine machine;
  const gpu::Gpu gpu{cuevent::Driver(cuevent::sim::get_proc_address)};
  training::Model model(gpu);
  for (int i = 0; i < 10; ++i)
    model.step(i);
  model.timer().collect();
  const std::string svg = drawn(
      {.title = "loop", .device = gpu.name(), .driver_version = 13000, .report = model.timer().report()});
  for (const char* text : {">copying<", ">computing<", ">host<", ">copy in<", ">forward<", ">backward<",
                           ">optimizer<", "runs 1 to 4 of 10", "prefers-color-scheme: dark"})
    CHECK_THAT(svg, ContainsSubstring(text));
  check_texts(svg);

  const std::regex waits("<path class=\"wait\"");
  // The waits of the four copies, the two waits for a buffer inside the picture, and the legend's arrow.
  CHECK(std::distance(std::sregex_iterator(svg.begin(), svg.end(), waits), std::sregex_iterator()) ==
        4 + 2 + 1);
}

TEST_CASE("a picture of the last runs numbers them among all runs") {
  Recording recording = growing(1, 1, "s");
  recording.report.stages[0].count = 500; // only the last of these is in the report
  CHECK_THAT(drawn(recording), ContainsSubstring("runs 500 to 500 of 500"));
}

TEST_CASE("a picture of simulated times says that they are modelled") {
  Recording recording = growing(1, 1, "s");
  CHECK_THAT(drawn(recording), !ContainsSubstring("imulated"));
  recording.simulated = true;
  CHECK_THAT(drawn(recording), ContainsSubstring("Simulated: all times are modelled."));
}

TEST_CASE("no text of a picture overlaps another, whatever their lengths") {
  for (const unsigned stages : {1U, 2U, 9U, 20U, 40U})
    for (const unsigned streams : {1U, 3U})
      for (const char* name :
           {"s", "stage ", "a stage whose name is so long that there is no room for all of it "}) {
        INFO(stages << " stages on " << streams << " streams: " << name);
        check_texts(drawn(growing(stages, streams, name)));
      }
}

TEST_CASE("names in a picture are text, not markup") {
  Recording recording = growing(1, 1, "<b>&\"\x01\xff");
  recording.device = "</title>";
  const std::string svg = drawn(recording);
  CHECK_THAT(svg, ContainsSubstring("&lt;b&gt;&amp;&quot;??0"));
  CHECK_THAT(svg, !ContainsSubstring("<b>"));
  CHECK_THAT(svg, ContainsSubstring("&lt;/title&gt;"));
}

TEST_CASE("an empty recording gives a picture with a legend") { check_texts(drawn({})); }
