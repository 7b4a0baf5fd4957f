// What a StageTimer is made of, for itself and its graphs. Inside the library only.
#pragma once

#include "graphs/capture_events.hpp"
#include "timing/device_clock.hpp"
#include "timing/duration_histogram.hpp"
#include "timing/side_stream_budget.hpp"

#include <deque>
#include <limits>
#include <optional>

namespace cuevent {

using Ticket = std::uint64_t; // counts the boundaries of a stream, or of a capture
inline constexpr Ticket no_ticket = std::numeric_limits<Ticket>::max();

/// What happens on a stream where a stage ends, or begins, or one after the other.
struct Change {
  bool closes = false;
  std::optional<StageId> opens;
};

/// A boundary of a stage in a ring: an event, and once it was read its time.
struct Boundary {
  DriverEvent event;
  Change change;
  enum class Recorded {
    no, // the stage that it closes is lost
    by_call,
    by_launch, // of a graph
  } recorded = Recorded::no;
  long long host = 0; // when it was asked for
  double time = 0;
  std::uint64_t closed = 0, opened = 0; // the numbers of the spans, known once it was read; 0: none
};

/// A wait as it is before its times are known: between two boundaries.
struct Arrow {
  std::uint32_t from_track = 0;
  Ticket from = no_ticket;
  std::uint32_t to_track = 0;
  Ticket to = no_ticket;
};

/// The boundaries of a stream that may be on their way at a time, so that the timer never fills a
/// launch queue, which holds about 1,020 timed records and other work: see docs/timing.md.
inline constexpr std::size_t most_in_stream = 256;      // next to the program's own work
inline constexpr std::size_t most_in_side_stream = 512; // which has no other work

/// 0 and CU_STREAM_LEGACY are one stream.
inline bool same_stream(CUstream a, CUstream b) noexcept {
  return a == b || ((a == nullptr || a == CU_STREAM_LEGACY) && (b == nullptr || b == CU_STREAM_LEGACY));
}

/// A stream: its ring of boundaries, and its stack of stages twice, as submitted and as read. A
/// boundary is an event in the stream, or in a side stream that waits for it: `reached` is what
/// the side stream waits for.
struct Track {
  struct Open {
    StageId stage;
    bool timed;
  };
  struct Begun {
    StageId stage;
    std::uint64_t number;
    double begin;
    long long opened;
  };

  StageStream stream;
  CUstream beside = nullptr;
  SideStreamPermit permit; // for `beside`
  DriverEvent reached;
  std::vector<Boundary> ring;
  Ticket next = 0, read = 0; // boundaries from `read` up to `next` are on their way
  std::size_t submitted = 0; // how many of them are in a launch queue by themselves, not in a graph
  std::vector<Open> open;
  std::size_t timed_open = 0; // each of which has an event of the ring reserved for its end
  std::vector<Begun> begun;
  double latest = 0;              // of the times read
  std::size_t captured_depth = 0; // how many stages a launch of a graph has open here at most
  std::vector<Arrow> arrows;      // waits whose end is the next boundary

  Boundary& at(Ticket ticket) noexcept { return ring[ticket % ring.size()]; }
  /// Whether that many events of the ring are neither on their way nor reserved, and the launch
  /// queue has room for that many records.
  bool has_room(std::size_t events, std::size_t records) const noexcept {
    const std::size_t most = beside == nullptr ? most_in_stream : most_in_side_stream;
    return ring.size() - static_cast<std::size_t>(next - read) - timed_open >= events &&
           most - submitted - timed_open >= records;
  }
  /// Memory for one more open stage, so that none is needed later.
  void reserve_depth() {
    open.reserve(open.size() + 1);
    begun.reserve(open.capacity() + captured_depth);
  }
  /// Whether what was read of the boundary is still there.
  bool remembers(Ticket ticket) const noexcept { return ticket < read && next <= ticket + ring.size(); }
};

/// What was captured of stages and waits in one capture, in the order of the calls.
struct CapturedStages {
  struct Node {
    DriverEvent event; // the graph's, recorded by the node until a launch points it elsewhere
    std::uint32_t track;
    Change change;
    EventRecordNode node{nullptr};
    Ticket ticket = no_ticket; // of the present launch
  };
  struct OnTrack {
    std::uint32_t track;
    std::vector<StageId> open;
    std::size_t depth = 0;        // the most that were open
    std::size_t nodes = 0;        // how many of `nodes` are here
    Ticket last = no_ticket;      // the last of them
    CUgraphNode beside = nullptr; // its node, if nothing else of the capture comes after it
    std::vector<Arrow> arrows;
  };

  cuuint64_t capture = 0;
  std::shared_ptr<CaptureEvents> events; // the graph's; once they have ended nothing here is of use
  std::vector<Node> nodes;
  std::vector<OnTrack> tracks;
  std::vector<Arrow> arrows; // tickets are places in `nodes`

  OnTrack& on(std::uint32_t track);
};

/// The capture that a stream is in.
struct Capturing {
  cuuint64_t id = 0; // 0: in none
  CUgraph graph = nullptr;
};

/// What is asked of the stages of a stream.
enum class Request { open, close, next };

/// Where a call came in the work of a stream.
struct Place {
  cuuint64_t capture = 0; // 0: in none
  std::uint32_t track = 0;
  Ticket after = no_ticket; // the last boundary before
};

struct StageTimer::State {
  struct Statistics {
    std::string name;
    DurationHistogram durations{};
    std::uint64_t dropped = 0;
  };

  State(const Context& owner, const StageTimerOptions& wanted);
  CUresult create();

  /// CUDA_SUCCESS if it is the timer's. Said so that a default stream is not mistaken for that of
  /// another.
  CUresult check(const Context& given) const noexcept;
  void require(const Context& given, const char* function) const; // throws instead
  /// As check(), for an event to be recorded in a stream: a default stream is that of the event's
  /// context.
  CUresult check(const DriverEvent& event, CUstream stream) const noexcept;

  StageId stage(std::string_view name);
  /// tracks.size() if the stream has none yet.
  std::size_t find_track(CUstream stream) const noexcept;
  CUresult track_of(CUstream stream, std::uint32_t& track);
  CUresult add_track(CUstream stream, std::string_view name, std::uint32_t& track);

  CUresult request(CUstream stream, Request request, StageId stage);
  CUresult poll(std::size_t& spans) noexcept;
  CUresult collect(std::size_t& spans) noexcept;
  CUresult calibrate() noexcept { return failed_in_clock(clock.calibrate()); }
  StageReport report() const;
  void clear() noexcept;

  CUresult place_of(CUstream stream, Place& place);
  void note_record(const DriverEvent& event, Place place, RecordFlags flags);
  void note_wait(const DriverEvent& event, Place place, WaitFlags flags); // place: before the wait

  /// Room as Track::has_room, made by reading back or, if that was asked for, by waiting.
  /// CUDA_ERROR_NOT_READY if there is none.
  CUresult make_room(Track& track, std::size_t events, std::size_t records) noexcept;
  /// Takes the next boundary of the track, whose event is being recorded, and with it the waits that end
  /// there.
  void push(std::uint32_t track, Change change, long long host, Boundary::Recorded recorded) noexcept;
  void remember(const Arrow& arrow) noexcept;
  void drop(StageId stage) noexcept { ++statistics[static_cast<std::size_t>(stage)].dropped; }
  CUresult failed(const char* function, CUresult result) noexcept {
    call = function;
    return result;
  }
  [[noreturn]] void fail(CUresult result) const;

  /// The stages of captures whose graphs are gone.
  void forget_ended_captures() noexcept;
  void give_back_side_streams() noexcept;

  const Context context;
  const StageTimerOptions options;
  DeviceClock clock;
  std::vector<TimerStream> streams_beside; // the first tracks
  std::vector<Track> tracks;
  std::deque<Statistics> statistics; // a stage each
  std::vector<CapturedStages> captures;
  const char* call = ""; // the function that failed last

private:
  struct Noted {
    CUevent event;
    Place place;
  };
  static constexpr std::size_t most_noted = 64; // the oldest makes room for the next

  CUresult failed_in_clock(CUresult result) noexcept { return failed(clock.call(), result); }
  CUresult change(std::uint32_t index, Request request, StageId stage);
  CUresult record_boundary(Track& track) noexcept;
  CUresult capture_boundary(const Track& track, CapturedStages::OnTrack& here, CUgraph graph,
                            DriverEvent& event);
  CUresult change_captured(std::uint32_t index, Capturing capture, Request request, StageId stage);
  void lose(std::uint32_t index, bool timed, StageId stage) noexcept;
  CUresult capture_of(CUstream stream, Capturing& capture) noexcept;
  CapturedStages* captured_in(cuuint64_t capture) noexcept; // null if no stage was
  CUresult begin_captured(Capturing capture);
  CUresult read(Track& track, std::size_t& spans) noexcept;
  std::size_t retire(Track& track, Boundary& boundary) noexcept;
  void resolve_arrows() noexcept;

  std::size_t last_track_ = 0;   // that was asked for
  std::vector<StageSpan> spans_; // rings of what was read
  std::vector<StageWait> waits_;
  std::uint64_t spans_read_ = 0, waits_read_ = 0; // since the last clear()
  std::uint64_t numbers_ = 0;                     // of spans
  std::vector<Noted> noted_;
  std::size_t next_noted_ = 0;
  std::vector<Arrow> arrows_; // of which an end is not yet read
  std::uint64_t untraced_ = 0;
};

} // namespace cuevent
