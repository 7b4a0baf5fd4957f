// SPDX-License-Identifier: MIT
/// \file
/// \brief EndNotice: says whether a graph has ended.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Says whether a graph has ended, for threads that must not wait in the driver: no driver call and no
/// destroy_retired() stands between the end and the notice. Made by Graph::end_notice(). To run code at the
/// end instead, use Graph::when_destroyed().
///
///     std::optional<Graph> tracked(context);
///     const EndNotice notice = tracked->end_notice();
///     tracked.reset();
///     while (!notice.ended()) std::this_thread::yield(); // the driver needs a moment
///
/// A notice can outlive the graph, its context and the driver, and the graph can outlive its notices. A
/// forked child sees what was true at the fork.
///
/// Thread-safety: distinct objects may be used on any thread, including copies. The caller orders assignment
/// and destruction with other uses of the same object.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class EndNotice {
public:
  /// The notice of no graph, which never ends.
  EndNotice() noexcept = default;
  /// Another notice of the same graph. Allocates nothing and takes no lock.
  EndNotice(const EndNotice& other) noexcept;
  EndNotice(EndNotice&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  EndNotice& operator=(EndNotice other) noexcept {
    swap(other);
    return *this;
  }
  ~EndNotice();

  /// Whether these have ended: the graph, its clones, every graph that has it as a child, every exec that was
  /// made from one of them after Graph::end_notice(), and their launches. One load.
  [[nodiscard]] bool ended() const noexcept {
    return state_ != nullptr && __atomic_load_n(&state_->ended, __ATOMIC_ACQUIRE) != 0;
  }

  /// A file descriptor for epoll, poll, libuv or Asio, which is readable once the graph has ended. The first
  /// call makes it, and later calls of all copies return the same one. It belongs to the copies and the
  /// graph, and is closed with the last of them: wait for it, but neither read nor close it. exec() closes
  /// it. A forked child shares it. Throws OperatingSystem if the process has too many descriptors, and
  /// InvalidHandle for the notice of no graph.
  [[nodiscard]] int native_handle();
  [[nodiscard]] CUresult try_native_handle(int& out) noexcept;

  /// Whether this is the notice of a graph.
  explicit operator bool() const noexcept { return state_ != nullptr; }

  void swap(EndNotice& other) noexcept {
    State* const state = state_;
    state_ = other.state_;
    other.state_ = state;
  }
  friend void swap(EndNotice& a, EndNotice& b) noexcept { a.swap(b); }

private:
  friend class Graph;
  /// Shared by the notices and the graph.
  struct State {
    unsigned holders;
    int ended;
    int descriptor; // -1: nobody has asked for one
  };
  [[gnu::visibility("hidden")]] static State* make() noexcept;
  [[gnu::visibility("hidden")]] static void end(void* state) noexcept;
  [[gnu::visibility("hidden")]] static void drop(State* state) noexcept;

  State* state_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
