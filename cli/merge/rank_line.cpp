// SPDX-License-Identifier: MIT
#include "merge/rank_line.hpp"

#include "json_text.hpp"

#include "core/name_text.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace cli {

namespace {

using Ordered = nlohmann::ordered_json; // the first key of a line is its kind

constexpr unsigned newest_version = 1;
/// Sums and differences of a few times stay in range.
constexpr long long most_nanoseconds = std::numeric_limits<long long>::max() / 4;

[[noreturn]] void fail(const std::string& what) {
  throw RankLineError(what + ": write the file with cuevent::RankReport, or see docs/ranks.md");
}

const Ordered& value_of(const Ordered& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) fail(std::string("there is no \"") + key + '"');
  return *found;
}

std::string text(const Ordered& line, const char* key) {
  const Ordered& value = value_of(line, key);
  if (!value.is_string()) fail(std::string("\"") + key + "\" is no text");
  return value.get<std::string>();
}

template <class Number>
Number number(const Ordered& line, const char* key, unsigned long long most) {
  const Ordered& value = value_of(line, key);
  if (!value.is_number_unsigned() || value.get<unsigned long long>() > most)
    fail(std::string("\"") + key + "\" is " + std::string(cuevent::beginning(json_text(value, -1), 40)) +
         ", not a whole number in its range");
  return value.get<Number>();
}

/// The number of a stage or stream, a depth, or a rank.
unsigned index(const Ordered& line, const char* key) {
  return number<unsigned>(line, key, std::numeric_limits<unsigned>::max());
}
unsigned long long count(const Ordered& line, const char* key) {
  return number<unsigned long long>(line, key, most_nanoseconds);
}
long long time(const Ordered& line, const char* key) {
  return number<long long>(line, key, most_nanoseconds);
}
long long duration(const Ordered& line, const char* key) {
  return number<long long>(line, key, most_nanoseconds / 4);
}

RankHeader header(const Ordered& line) {
  const unsigned version = index(line, "rank_report");
  if (version == 0 || version > newest_version)
    throw RankLineError("the report has version " + std::to_string(version) +
                        ", and this command reads version " + std::to_string(newest_version) +
                        ": use the cuevent that wrote the report");
  RankHeader header{index(line, "rank"), index(line, "size"), text(line, "host"), text(line, "device")};
  if (header.size > most_ranks) fail("a job of " + std::to_string(header.size) + " ranks is too large");
  if (header.rank >= header.size)
    fail("rank " + std::to_string(header.rank) + " is not less than the size " + std::to_string(header.size));
  return header;
}

SpanLine span(const Ordered& line) {
  const SpanLine span{count(line, "span"),  index(line, "stage"), index(line, "stream"),
                      index(line, "depth"), time(line, "begin"),  time(line, "end")};
  if (span.end < span.begin) fail("the span ends before it begins");
  return span;
}

WaitLine wait(const Ordered& line) {
  const WaitLine wait{count(line, "wait"),      count(line, "to"),       index(line, "from_stream"),
                      index(line, "to_stream"), time(line, "departure"), time(line, "arrival")};
  if (wait.arrival < wait.departure) fail("the wait arrives before it departs");
  return wait;
}

} // namespace

RankLine read_rank_line(std::string_view bytes) {
  const Ordered line = Ordered::parse(bytes, nullptr, false);
  if (!line.is_object() || line.empty()) fail("the line is not a JSON object with a kind");
  const std::string kind = line.begin().key();
  if (kind == "span") return span(line);
  if (kind == "wait") return wait(line);
  if (kind == "rank_report") return header(line);
  if (kind == "stage") return StageName{index(line, "stage"), text(line, "name")};
  if (kind == "stream") return StreamName{index(line, "stream"), text(line, "name")};
  if (kind == "clock")
    return ClockLine{time(line, "clock"), time(line, "reference"), duration(line, "uncertainty")};
  if (kind == "device_clock") return DeviceClockLine{duration(line, "uncertainty")};
  if (kind == "missing")
    return MissingLine{index(line, "stage"), count(line, "missing"), count(line, "dropped")};
  if (kind == "end") {
    if (text(line, "end") == "complete") return EndLine{};
    const std::string why = text(line, "why");
    return EndLine{why.empty() ? "no reason given" : why};
  }
  return OtherLine{};
}

} // namespace cli
