// SPDX-License-Identifier: MIT
/// \file
/// \brief Declarations of the classes and enumerations, for headers that only name them.
///
/// Everything is in an inline namespace, so `namespace cuevent { class DriverEvent; }` would declare another
/// class. Include this header instead; it includes neither cuda.h nor a container.
#pragma once

#include <cuevent/version.hpp>

#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class CaptureFork;
class CaptureInfo;
class CaptureModeGuard;
class CompletionLane;
class CompletionQueue;
class CompletionToken;
class Context;
class ContextGuard;
class Driver;
class DriverError;
class DriverEvent;
class EndNotice;
class EventAccess;
class EventPool;
class EventPools;
class EventRecordNode;
class EventRef;
class EventWaitNode;
class FlightRecorder;
class Graph;
class GraphExec;
class Lease;
class PooledEvent;
class RankReport;
class SharedEvent;
class StageTimer;
class StreamCapture;
class StreamRef;
class TimeLimit;
class TimedGraph;
class TimelineFence;
class TimelineSemaphore;
struct Comparison;
struct FlightReport;
struct IpcHandle;
struct Measurement;
struct PollLimit;
struct StageReport;
struct TimelinePoint;
template <class T>
class ArrayView;

enum class CaptureMode;
enum class CaptureStatus;
enum class ErrorKind;
enum class EventFlags : unsigned;
enum class EventTrigger;
enum class FlightGraph : std::uint64_t;
enum class FreshLease : unsigned char;
enum class GraphMarks;
enum class MeasuredEnd : unsigned char;
enum class MeasuredScope : unsigned char;
enum class RecordFlags : unsigned;
enum class SpanEscape : unsigned char;
enum class StageEscapes;
enum class StageId : std::uint32_t;
enum class StageRanges;
enum class StreamId : std::uint32_t;
enum class TimelineStatus : unsigned char;
enum class WaitFlags : unsigned;
enum class WaitOrder : unsigned char;
enum class WhenFull;

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
