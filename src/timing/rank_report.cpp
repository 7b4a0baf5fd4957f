// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>
#include <cuevent/rank_report.hpp>

#include "timing/json_line.hpp"
#include "timing/span_order.hpp"

#include <cmath>
#include <unordered_map>
#include <utility>

namespace cuevent {

namespace {

constexpr int rank_report_version = 1;

long long nanoseconds_of(HostTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

} // namespace

struct RankReport::State {
  struct Stream {
    SpanOrder order;
    std::uint64_t last = 0; // the number of its last span
    std::string name;
  };

  void add_names(const StageReport& report) {
    for (; stages < report.stages.size(); ++stages)
      JsonLine(text).add("stage", static_cast<long long>(stages)).add("name", report.stages[stages].name);
    for (std::size_t i = 0; i < report.streams.size(); ++i) {
      if (i < streams.size() && streams[i].name == report.streams[i].name) continue;
      if (i == streams.size()) streams.emplace_back();
      streams[i].name = report.streams[i].name;
      JsonLine(text).add("stream", static_cast<long long>(i)).add("name", streams[i].name);
    }
  }

  /// Before the spans, because these runs were before them.
  void add_missing(const StageReport& report) {
    std::vector<std::uint64_t> kept(report.stages.size());
    for (const StageSpan& span : report.spans)
      ++kept[static_cast<std::size_t>(span.stage)];
    for (std::size_t i = 0; i < report.stages.size(); ++i) {
      const std::uint64_t lost = report.stages[i].count - kept[i], dropped = report.stages[i].dropped;
      if (lost == 0 && dropped == 0) continue;
      JsonLine(text)
          .add("missing", static_cast<long long>(lost))
          .add("dropped", static_cast<long long>(dropped))
          .add("stage", static_cast<long long>(i));
    }
  }

  void add_spans(const StageReport& report) {
    const long long epoch = nanoseconds_of(report.clock.epoch);
    const auto host = [&](DeviceTime time) { return epoch + std::llround(time.count()); };
    std::unordered_map<std::uint64_t, WholeSpan> written;
    for (const StageSpan& span : report.spans) {
      Stream& stream = streams[static_cast<std::size_t>(span.stream)];
      const WholeSpan whole = stream.order.put_in_order(span.depth, {host(span.begin), host(span.end)});
      stream.last = span.number;
      written.emplace(span.number, whole);
      JsonLine(text)
          .add("span", static_cast<long long>(span.number))
          .add("stage", static_cast<long long>(span.stage))
          .add("stream", static_cast<long long>(span.stream))
          .add("depth", span.depth)
          .add("begin", whole.begin)
          .add("end", whole.end);
    }
    for (const StageWait& wait : report.waits) {
      const auto from = written.find(wait.from), to = written.find(wait.to);
      if (from == written.end() || to == written.end()) continue;
      // At its end, a span is over: an arrow has to be before it.
      const auto inside = [](long long time, const WholeSpan& span) {
        return std::clamp(time, span.begin, std::max(span.begin, span.end - 1));
      };
      const long long arrival = inside(std::max(host(wait.arrival), from->second.begin), to->second);
      const long long departure = inside(std::min(host(wait.departure), arrival), from->second);
      if (departure > arrival) continue;
      JsonLine(text)
          .add("wait", static_cast<long long>(wait.from))
          .add("to", static_cast<long long>(wait.to))
          .add("from_stream", static_cast<long long>(wait.from_stream))
          .add("to_stream", static_cast<long long>(wait.to_stream))
          .add("departure", departure)
          .add("arrival", arrival);
    }
  }

  std::string text;
  std::size_t stages = 0; // the number of stages whose names are written
  std::vector<Stream> streams;
};

RankReport::RankReport(const RankIdentity& identity, std::string_view device)
    : state_(std::make_unique<State>()) {
  if (identity.rank >= identity.size)
    throw InvalidValue("RankReport",
                       "the rank is not less than the number of ranks: correct the RankIdentity");
  JsonLine(state_->text)
      .add("rank_report", rank_report_version)
      .add("rank", identity.rank)
      .add("size", identity.size)
      .add("host", identity.host)
      .add("device", device);
}

RankReport::RankReport(RankReport&&) noexcept = default;
RankReport& RankReport::operator=(RankReport&&) noexcept = default;
RankReport::~RankReport() = default;

RankReport::State& RankReport::state(const char* call) const {
  if (!state_) throw InvalidHandle(call, "the RankReport is empty, because it was moved: use the new one");
  return *state_;
}

void RankReport::add(const ClockSample& sample) {
  JsonLine(state("RankReport::add").text)
      .add("clock", nanoseconds_of(sample.here))
      .add("reference", nanoseconds_of(sample.reference))
      .add("uncertainty", sample.uncertainty.count());
}

void RankReport::add(const StageReport& report) {
  State& state = this->state("RankReport::add");
  for (const StageSpan& span : report.spans) {
    const auto stream = static_cast<std::size_t>(span.stream);
    if (stream < state.streams.size() && state.streams[stream].last == span.number)
      throw InvalidValue("RankReport::add",
                         "the spans were added before: call StageTimer::clear() after each add()");
  }
  state.add_names(report);
  JsonLine(state.text)
      .add("device_clock", nanoseconds_of(report.clock.epoch))
      .add("uncertainty", std::llround(report.clock.uncertainty.count()));
  state.add_missing(report);
  state.add_spans(report);
}

void RankReport::end() { JsonLine(state("RankReport::end").text).add("end", "complete"); }
void RankReport::end(std::string_view why) {
  JsonLine(state("RankReport::end").text).add("end", "failed").add("why", why);
}

std::string RankReport::take() { return std::exchange(state("RankReport::take").text, {}); }

} // namespace cuevent
