// SPDX-License-Identifier: MIT
#include "recording/captured_marks.hpp"

#include "core/erase_where.hpp"
#include "core/on_stream.hpp"
#include "graphs/capturing.hpp"
#include "recording/flight_observation.hpp"

#include <cuevent/graph.hpp>

#include <algorithm>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr Status launch_in_child{CUDA_ERROR_NOT_INITIALIZED, "FlightRecorder::launched"};
constexpr Status no_such_graph{CUDA_ERROR_INVALID_VALUE, "FlightRecorder::launched", Reason::no_such_graph};

} // namespace

Status MarkedGraphs::find_or_add(const Context& context, const Capturing& capture,
                                 const std::shared_ptr<MarkWords>& page, std::uint64_t& number,
                                 std::shared_ptr<CapturedMarks>& marks) {
  constexpr Status in_child{CUDA_ERROR_NOT_INITIALIZED, "FlightRecorder"};
  const auto is_known = [&] {
    for (auto& [its_number, each] : graphs_) {
      if (each.capture != capture.id || (marks = each.marks.lock()) == nullptr) continue;
      number = its_number;
      return true;
    }
    return false;
  };
  {
    const auto lock = lock_.hold();
    if (!lock) return in_child;
    if (is_known()) return {};
  }
  // The graph has its share before a node refers to an event.
  auto made = std::make_shared<CapturedMarks>();
  made->page = page;
  Graph::borrow(context, capture.graph).retain(std::shared_ptr<CapturedMarks>(made));
  const auto lock = lock_.hold();
  if (!lock) return in_child;
  if (is_known()) return {}; // another thread was faster, on another stream of the capture
  marks = std::move(made);
  erase_where(graphs_, [](const auto& each) { return each.second.marks.expired(); });
  number = ++last_;
  graphs_[number] = {.capture = capture.id,
                     .name = ShortName("graph " + std::to_string(number)),
                     .launches = 0,
                     .marks = marks};
  return {};
}

void MarkedGraphs::rename(std::uint64_t number, std::string_view name) {
  const auto lock = lock_.hold();
  if (!lock) return;
  if (const auto found = graphs_.find(number); found != graphs_.end()) found->second.name = ShortName(name);
}

Status MarkedGraphs::look_up(std::uint64_t number) const noexcept {
  const auto lock = lock_.hold();
  if (!lock) return launch_in_child;
  const auto found = graphs_.find(number);
  const bool exists = found != graphs_.end() && !found->second.marks.expired();
  return exists ? Status{} : no_such_graph;
}

Status MarkedGraphs::count_launch(std::uint64_t number, std::uint64_t& replay) noexcept {
  const auto lock = lock_.hold();
  if (!lock) return launch_in_child;
  const auto found = graphs_.find(number);
  if (found == graphs_.end() || found->second.marks.expired()) return no_such_graph;
  replay = ++found->second.launches;
  return {};
}

std::vector<MarkedGraph> MarkedGraphs::all() const {
  std::vector<MarkedGraph> graphs;
  const auto lock = lock_.hold();
  if (!lock) return graphs;
  for (const auto& [number, each] : graphs_)
    if (std::shared_ptr<CapturedMarks> marks = each.marks.lock())
      graphs.push_back({number, each.name, each.launches, std::move(marks)});
  return graphs;
}

std::string MarkedGraphs::launch_name(std::uint64_t number, std::uint64_t replay) const {
  std::string name = "graph " + std::to_string(number);
  if (const auto lock = lock_.hold())
    if (const auto found = graphs_.find(number); found != graphs_.end()) name = found->second.name.text();
  return "replay " + std::to_string(replay) + " of '" + name + "'";
}

namespace {

/// The word of the stream, which is taken if there is none. Null if there is no free word.
CapturedMarks::Word* find_or_take_word(CapturedMarks& marks, std::size_t index) {
  for (CapturedMarks::Word& each : marks.words)
    if (each.stream == index) return &each;
  marks.words.reserve(marks.words.size() + 1);
  std::uint32_t* const word = marks.page->take();
  if (word == nullptr) return nullptr;
  marks.words.push_back({.stream = index, .word = word});
  return &marks.words.back();
}

Status write_word(const Context& context, CUstream stream, std::uint32_t* word, std::uint32_t value) {
  const CUresult result = on_stream(context, stream, [&] {
    return context.driver().table().cuStreamWriteValue32_v11070(stream, reinterpret_cast<CUdeviceptr>(word),
                                                                value, 0);
  });
  return {result, "cuStreamWriteValue32"};
}

} // namespace

Status capture_beginning(CapturedMarks& marks, const Context& context, CUstream stream, std::size_t index) {
  if (marks.page == nullptr) return {};
  std::uint32_t* word = nullptr;
  {
    const auto lock = marks.lock.hold();
    if (!lock) return {CUDA_ERROR_NOT_INITIALIZED, "FlightRecorder"};
    if (marks.word_of(index) != nullptr) return {};
    CapturedMarks::Word* const its = find_or_take_word(marks, index);
    if (its == nullptr) return {};
    its->begins = true;
    word = its->word;
  }
  return write_word(context, stream, word, 0);
}

Status capture_mark(CapturedMarks& marks, const Context& context, CUstream stream, std::size_t index,
                    std::string_view name) {
  DriverEvent made;
  CUresult result = DriverEvent::try_create(made, context);
  if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  DriverEvent event = DriverEvent::borrow(context, made.native_handle(), made.flags());
  std::size_t place = 0;
  {
    const auto lock = marks.lock.hold();
    if (!lock) return {CUDA_ERROR_NOT_INITIALIZED, "FlightRecorder"};
    place = marks.marks.size();
    marks.marks.push_back({std::move(made), index, ShortName(name)});
  }
  result = on_stream(context, stream, [&] { return event.try_record(stream, RecordFlags::external); });
  if (result != CUDA_SUCCESS) return {result, "cuEventRecordWithFlags"};
  std::uint32_t *word = nullptr, number = 0;
  {
    const auto lock = marks.lock.hold();
    if (!lock) return {CUDA_ERROR_NOT_INITIALIZED, "FlightRecorder"};
    marks.marks[place].recorded = true;
    if (marks.page == nullptr) return {};
    if (CapturedMarks::Word* const its = find_or_take_word(marks, index)) {
      word = its->word;
      number = ++its->marks;
    }
  }
  return word == nullptr ? Status{} : write_word(context, stream, word, number);
}

std::vector<ReplayedTrack> look_at(const CapturedMarks& marks, FlightObservation& observation) {
  std::vector<ReplayedTrack> tracks;
  for (std::size_t i = 0; i < marks.marks.size(); ++i) {
    const CapturedMark& mark = marks.marks[i];
    if (!mark.recorded) continue;
    auto track = std::find_if(tracks.begin(), tracks.end(),
                              [&](const ReplayedTrack& each) { return each.stream == mark.stream; });
    if (track == tracks.end()) track = tracks.insert(track, {.stream = mark.stream, .marks = {}});
    track->marks.push_back(i);
  }
  const bool has_words = marks.page != nullptr && marks.page->exists();
  for (ReplayedTrack& track : tracks) {
    const Context& context = marks.marks[track.marks.front()].event.context();
    if (context.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED) { // nobody may query its events
      track.reached = track.marks.size();
      continue;
    }
    // The marks of a stream are reached in order.
    const auto first = std::partition_point(track.marks.begin(), track.marks.end(), [&](std::size_t mark) {
      const CUresult result = marks.marks[mark].event.try_query();
      if (result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return true;
      // The last two are answers about this event, and say nothing about the device.
      const bool is_pending = result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_INVALID_VALUE ||
                              result == CUDA_ERROR_CAPTURED_EVENT;
      if (!is_pending) observation.refused(result);
      return false;
    });
    track.reached = static_cast<Position>(first - track.marks.begin());
    // Without a beginning, the last number can be that of an earlier replay.
    const CapturedMarks::Word* const word = has_words ? marks.word_of(track.stream) : nullptr;
    if (track.reached == track.marks.size() || word == nullptr) continue;
    const std::uint32_t number = MarkWords::read(word->word);
    if (number > track.marks.size() || (number == track.marks.size() && !word->begins)) continue;
    track.reached = number;
    track.written = true;
  }
  return tracks;
}

}} // namespace cuevent::CUEVENT_ABI
