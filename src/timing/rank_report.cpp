// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>
#include <cuevent/rank_report.hpp>

#include "timing/json_line.hpp"
#include "timing/span_order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr int rank_report_version = 1;

// The limits of the format: docs/ranks.md.
constexpr unsigned most_ranks = 1 << 20;
constexpr std::size_t most_stages = 4096, most_streams = 4096;
constexpr long long most_runs = 1LL << 40;                                        // missing, or not timed
constexpr long long most_nanoseconds = std::numeric_limits<long long>::max() / 4; // of a time
constexpr auto most_number = static_cast<std::uint64_t>(most_nanoseconds);        // of a span
constexpr long long most_uncertain = most_nanoseconds / 4;
constexpr unsigned most_depth = 4096;   // no program nests stages this deep
constexpr std::size_t most_text = 4096; // with escape sequences, two texts fit into a line

long long nanoseconds_of(HostTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

bool is_time(long long nanoseconds) { return nanoseconds >= 0 && nanoseconds <= most_nanoseconds; }
bool is_uncertainty(long long nanoseconds) { return nanoseconds >= 0 && nanoseconds <= most_uncertain; }

/// Nothing if the sum is no time, or not a number.
std::optional<long long> sum_of(long long epoch, DeviceTime time) {
  constexpr auto most = static_cast<double>(most_nanoseconds);
  if (!(time.count() >= -most && time.count() <= most)) return std::nullopt;
  const long long sum = epoch + std::llround(time.count());
  return is_time(sum) ? std::optional(sum) : std::nullopt;
}

/// Cut at a character.
std::string text_of(std::string_view text) {
  if (text.size() <= most_text) return std::string(text);
  constexpr std::string_view rest = "...";
  std::size_t size = most_text - rest.size();
  const auto is_inside_character = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  for (int i = 0; i < 3 && is_inside_character(size); ++i)
    --size;
  return std::string(text.substr(0, size)).append(rest);
}

} // namespace

struct RankReport::State {
  /// Spans that nest: a stream of the written report.
  struct Lane {
    std::size_t number; // in the text
    SpanOrder order;
  };
  struct Stream {
    std::uint64_t last = 0; // the number of its last span
    std::string name;
    std::vector<Lane> lanes; // a span that does not nest with those of one lane is in a later one
  };
  struct Stage {
    long long missing = 0, dropped = 0;
  };
  /// A span that can be written.
  struct Placed {
    const StageSpan* span;
    std::size_t lane; // its number
    WholeSpan whole;
  };

  /// Throws if the report contradicts itself, or does not fit into the format.
  void check(const StageReport& report) const {
    const char* const call = "RankReport::add";
    if (report.stages.size() > most_stages || report.streams.size() > most_streams)
      throw_error(CUDA_ERROR_INVALID_VALUE, call,
                  "the report has more than 4,096 stages or streams: use fewer different names");
    if (!is_time(nanoseconds_of(report.clock.epoch)) ||
        !(report.clock.uncertainty.count() >= 0 &&
          report.clock.uncertainty.count() < static_cast<double>(most_uncertain)))
      throw_error(CUDA_ERROR_INVALID_VALUE, call,
                  "the clock of the report has a negative or too large time: pass what "
                  "StageTimer::report() returns");
    std::vector<std::uint64_t> spans(report.stages.size());
    for (const StageSpan& span : report.spans) {
      const auto stage = static_cast<std::size_t>(span.stage), stream = static_cast<std::size_t>(span.stream);
      if (stage >= report.stages.size() || stream >= report.streams.size())
        throw_error(CUDA_ERROR_INVALID_VALUE, call,
                    "a span has a stage or stream that the report does not have: pass what "
                    "StageTimer::report() returns");
      ++spans[stage];
      if (stream < streams.size() && streams[stream].last == span.number)
        throw_error(CUDA_ERROR_INVALID_VALUE, call,
                    "the spans were added before: call StageTimer::clear() after each add()");
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const StageStatistics& stage = report.stages[i];
      const Stage before = i < stages.size() ? stages[i] : Stage();
      // Spans that cannot be written count as dropped.
      if (stage.count < spans[i] || stage.count > static_cast<std::uint64_t>(most_runs - before.missing) ||
          stage.dropped > static_cast<std::uint64_t>(most_runs - before.dropped) ||
          stage.dropped + spans[i] > static_cast<std::uint64_t>(most_runs - before.dropped))
        throw_error(CUDA_ERROR_INVALID_VALUE, call,
                    "a stage has fewer runs than spans, or more than 2^40 runs: pass what "
                    "StageTimer::report() returns");
    }
  }

  void add_stream_name(const Stream& stream, std::size_t lane) {
    JsonLine(text)
        .add("stream", static_cast<long long>(stream.lanes[lane].number))
        .add("name", lane == 0 ? stream.name : stream.name + " (" + std::to_string(lane + 1) + ")");
  }

  /// False if there are too many streams.
  bool add_lane(Stream& stream) {
    if (lanes == most_streams) return false;
    stream.lanes.push_back({lanes++, {}});
    add_stream_name(stream, stream.lanes.size() - 1);
    return true;
  }

  void add_names(const StageReport& report) {
    for (; stages.size() < report.stages.size(); stages.emplace_back())
      JsonLine(text)
          .add("stage", static_cast<long long>(stages.size()))
          .add("name", text_of(report.stages[stages.size()].name));
    for (std::size_t i = 0; i < report.streams.size(); ++i) {
      std::string name = text_of(report.streams[i].name);
      if (i == streams.size()) {
        streams.push_back({.name = std::move(name), .lanes = {}});
        add_lane(streams[i]);
      } else if (streams[i].name != name) {
        streams[i].name = std::move(name);
        for (std::size_t lane = 0; lane < streams[i].lanes.size(); ++lane)
          add_stream_name(streams[i], lane);
      }
    }
  }

  /// The spans with their places. Spans without a place are counted as dropped.
  std::vector<Placed> place(const StageReport& report, std::vector<Stage>& counts) {
    const long long epoch = nanoseconds_of(report.clock.epoch);
    std::vector<Placed> placed;
    placed.reserve(report.spans.size());
    for (const StageSpan& span : report.spans) {
      Stream& stream = streams[static_cast<std::size_t>(span.stream)];
      Stage& stage = counts[static_cast<std::size_t>(span.stage)];
      stream.last = span.number;
      --stage.missing;
      const std::optional<long long> begin = sum_of(epoch, span.begin), end = sum_of(epoch, span.end);
      std::size_t lane = 0;
      bool has_place =
          begin && end && *begin <= *end && span.depth < most_depth && span.number <= most_number;
      while (has_place &&
             (lane == stream.lanes.size() || !stream.lanes[lane].order.add(span.depth, {*begin, *end})))
        if (lane == stream.lanes.size())
          has_place = add_lane(stream);
        else
          ++lane;
      if (has_place)
        placed.push_back({&span, stream.lanes[lane].number, {*begin, *end}});
      else
        ++stage.dropped;
    }
    return placed;
  }

  /// Before the spans, because these runs were before them.
  void add_missing(const std::vector<Stage>& counts) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i].missing == 0 && counts[i].dropped == 0) continue;
      stages[i].missing += counts[i].missing;
      stages[i].dropped += counts[i].dropped;
      JsonLine(text)
          .add("missing", counts[i].missing)
          .add("dropped", counts[i].dropped)
          .add("stage", static_cast<long long>(i));
    }
  }

  void add_spans(const StageReport& report, const std::vector<Placed>& placed) {
    std::unordered_map<std::uint64_t, const Placed*> written;
    for (const Placed& each : placed) {
      written.emplace(each.span->number, &each);
      JsonLine(text)
          .add("span", static_cast<long long>(each.span->number))
          .add("stage", static_cast<long long>(each.span->stage))
          .add("stream", static_cast<long long>(each.lane))
          .add("depth", each.span->depth)
          .add("begin", each.whole.begin)
          .add("end", each.whole.end);
    }
    const long long epoch = nanoseconds_of(report.clock.epoch);
    for (const StageWait& wait : report.waits) {
      const auto from = written.find(wait.from), to = written.find(wait.to);
      const std::optional<long long> left = sum_of(epoch, wait.departure), came = sum_of(epoch, wait.arrival);
      if (from == written.end() || to == written.end() || !left || !came) continue;
      const WholeSpan tail = from->second->whole, head = to->second->whole;
      // At its end, a span is over: an arrow has to be before it.
      const auto inside = [](long long time, const WholeSpan& span) {
        return std::clamp(time, span.begin, std::max(span.begin, span.end - 1));
      };
      const long long arrival = inside(std::max(*came, tail.begin), head);
      const long long departure = inside(std::min(*left, arrival), tail);
      if (departure > arrival) continue;
      JsonLine(text)
          .add("wait", static_cast<long long>(wait.from))
          .add("to", static_cast<long long>(wait.to))
          .add("from_stream", static_cast<long long>(from->second->lane))
          .add("to_stream", static_cast<long long>(to->second->lane))
          .add("departure", departure)
          .add("arrival", arrival);
    }
  }

  std::string text;
  std::vector<Stage> stages; // with a written name
  std::vector<Stream> streams;
  std::size_t lanes = 0;             // of all streams
  std::optional<ClockSample> sample; // the last one that says something new
};

RankReport::RankReport(const RankIdentity& identity, std::string_view device)
    : state_(std::make_unique<State>()) {
  if (identity.rank >= identity.size || identity.size > most_ranks)
    throw_error(CUDA_ERROR_INVALID_VALUE, "RankReport",
                "the rank is not less than the number of ranks, or there are more than "
                "1,048,576 ranks: correct the RankIdentity");
  JsonLine(state_->text)
      .add("rank_report", rank_report_version)
      .add("rank", identity.rank)
      .add("size", identity.size)
      .add("host", text_of(identity.host))
      .add("device", text_of(device));
}

RankReport::RankReport(RankReport&&) noexcept = default;
RankReport& RankReport::operator=(RankReport&&) noexcept = default;
RankReport::~RankReport() = default;

RankReport::State& RankReport::state(const char* call) const {
  if (!state_)
    throw_error(CUDA_ERROR_INVALID_HANDLE, call,
                "the RankReport is empty, because it was moved: use the new one");
  return *state_;
}

void RankReport::add(const ClockSample& sample) {
  const char* const call = "RankReport::add";
  State& state = this->state(call);
  const long long here = nanoseconds_of(sample.here), reference = nanoseconds_of(sample.reference);
  if (!is_time(here) || !is_time(reference) || !is_uncertainty(sample.uncertainty.count()))
    throw_error(CUDA_ERROR_INVALID_VALUE, call,
                "the clock sample has a negative or too large time: use a clock that starts "
                "with its host");
  if (const std::optional<ClockSample>& before = state.sample) {
    const auto ours = static_cast<double>((sample.here - before->here).count());
    const auto theirs = static_cast<double>((sample.reference - before->reference).count());
    const auto error =
        static_cast<double>(sample.uncertainty.count()) + static_cast<double>(before->uncertainty.count());
    if (ours <= 0)
      throw_error(CUDA_ERROR_INVALID_VALUE, call,
                  "the clock sample is not later than the previous one: add samples in their order");
    if (std::abs(theirs - ours) > error + 0.01 * ours)
      throw_error(CUDA_ERROR_INVALID_VALUE, call,
                  "the clock sample contradicts the previous one, because one of the two clocks was "
                  "set in between: use a clock that is never set, such as std::chrono::steady_clock");
  }
  if (!state.sample || sample.reference > state.sample->reference) state.sample = sample;
  JsonLine(state.text)
      .add("clock", here)
      .add("reference", reference)
      .add("uncertainty", sample.uncertainty.count());
}

void RankReport::add(const StageReport& report) {
  State& state = this->state("RankReport::add");
  state.check(report);
  state.add_names(report);
  JsonLine(state.text)
      .add("device_clock", nanoseconds_of(report.clock.epoch))
      .add("uncertainty", std::llround(report.clock.uncertainty.count()));
  std::vector<State::Stage> counts;
  for (const StageStatistics& stage : report.stages)
    counts.push_back(
        {.missing = static_cast<long long>(stage.count), .dropped = static_cast<long long>(stage.dropped)});
  const std::vector<State::Placed> placed = state.place(report, counts);
  state.add_missing(counts);
  state.add_spans(report, placed);
}

void RankReport::end() { JsonLine(state("RankReport::end").text).add("end", "complete"); }
void RankReport::end(std::string_view why) {
  JsonLine(state("RankReport::end").text).add("end", "failed").add("why", text_of(why));
}

std::string RankReport::take() { return std::exchange(state("RankReport::take").text, {}); }

}} // namespace cuevent::CUEVENT_ABI
