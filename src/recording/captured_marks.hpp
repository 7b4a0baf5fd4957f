// SPDX-License-Identifier: MIT
// The marks inside captured graphs. Internal to the library.
#pragma once

#include "core/fork_lock.hpp"
#include "core/position.hpp"
#include "core/status.hpp"
#include "recording/mark_words.hpp"
#include "recording/short_name.hpp"

#include <cuevent/driver_event.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

struct Capturing;
struct FlightObservation;

/// A mark that became a node.
struct CapturedMark {
  DriverEvent event;
  std::size_t stream = 0; // its index
  ShortName name;
  bool recorded = false; // false if the driver refused the node
};

/// The marks of one capture, in the order of the calls. The graph shares this object and keeps it until the
/// graph and its execs have ended; destroy_retired() then drops the graph's share.
struct CapturedMarks {
  /// A word that the graph sets to the number of marks of the stream that a replay has reached.
  struct Word {
    std::size_t stream = 0;
    std::uint32_t* word = nullptr;
    std::uint32_t marks = 0;
    bool begins = false; // whether each replay sets it to 0 first
  };

  CapturedMarks() = default;
  CapturedMarks(const CapturedMarks&) = delete;
  CapturedMarks& operator=(const CapturedMarks&) = delete;
  ~CapturedMarks() {
    for (const Word& each : words)
      page->give_back(each.word);
  }
  /// Null if there is none.
  const Word* word_of(std::size_t stream) const noexcept {
    for (const Word& each : words)
      if (each.stream == stream) return &each;
    return nullptr;
  }

  std::shared_ptr<MarkWords> page; // null without words
  ProcessLock lock;                // never held during a call that can wait
  std::vector<CapturedMark> marks;
  std::vector<Word> words;
};

/// A graph as a report sees it.
struct MarkedGraph {
  std::uint64_t number = 0; // from 1
  ShortName name;
  std::uint64_t launches = 0;           // the launches that were noted
  std::shared_ptr<CapturedMarks> marks; // null if there are none
};

/// The graphs of a recorder.
class MarkedGraphs {
public:
  bool is_whole() const noexcept { return static_cast<bool>(lock_.hold()); }
  /// The number of the graph that is being captured, which is new if the capture is. Driver functions for a
  /// new one: cuUserObjectCreate, cuGraphRetainUserObject.
  /// `page` is null if the marks use no words.
  Status find_or_add(const Context& context, const Capturing& capture, const std::shared_ptr<MarkWords>& page,
                     std::uint64_t& number, std::shared_ptr<CapturedMarks>& marks);
  void rename(std::uint64_t number, std::string_view name);
  /// CUDA_ERROR_INVALID_VALUE if there is no such graph, or it has ended.
  Status look_up(std::uint64_t number) const noexcept;
  /// The same, and counts a launch. Its number is `replay`, from 1.
  Status count_launch(std::uint64_t number, std::uint64_t& replay) noexcept;
  /// Those that still exist.
  std::vector<MarkedGraph> all() const;
  /// "replay 3 of 'step'"
  std::string launch_name(std::uint64_t number, std::uint64_t replay) const;

private:
  struct Known {
    cuuint64_t capture = 0;
    ShortName name;
    std::uint64_t launches = 0;
    std::weak_ptr<CapturedMarks> marks; // gone with the graph
  };

  ProcessLock lock_;
  std::map<std::uint64_t, Known> graphs_;
  std::uint64_t last_ = 0;
};

/// Adds a mark to the capture: an untimed event, and a node that records it at each launch. Driver functions:
/// cuEventCreate, cuEventRecordWithFlags, with words also cuStreamWriteValue32.
Status capture_mark(CapturedMarks& marks, const Context& context, CUstream stream, std::size_t index,
                    std::string_view name);

/// Lets each replay begin with a word of 0 for that stream, if the marks use words and the stream has none
/// yet. Driver function: cuStreamWriteValue32.
Status capture_beginning(CapturedMarks& marks, const Context& context, CUstream stream, std::size_t index);

/// What events say about the replays of one stream's marks.
struct ReplayedTrack {
  std::size_t stream = 0;
  std::vector<std::size_t> marks; // places in CapturedMarks::marks
  Position reached = 0;           // the number of marks that read done
  bool written = false;           // whether a word says so, which holds for the oldest replay in flight
};

/// Asks the events of the marks, by stream. The thread must be in relaxed capture mode. The marks' lock must
/// be held. Driver functions: cuCtxGetId, cuEventQuery.
std::vector<ReplayedTrack> look_at(const CapturedMarks& marks, FlightObservation& observation);

}} // namespace cuevent::CUEVENT_ABI
