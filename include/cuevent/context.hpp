// SPDX-License-Identifier: MIT
// Context: a CUcontext, owned or borrowed. ContextGuard: makes a context current for a scope.
#pragma once

#include <cuevent/driver.hpp>

#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Whether the object that holds a handle destroys it. An empty object is borrowed.
enum class Ownership : unsigned short { borrowed, owned };

/// A CUcontext and its driver. Every event, graph, pool and fence belongs to one. primary() and
/// create() own the context: the last copy releases or destroys it. borrow() and current() do not
/// own it.
///
///     const Context first = Context::primary(0, driver);
///     DriverEvent done(first);
///     done.record(CU_STREAM_PER_THREAD);
///
/// Thread-safety: distinct objects may be used on any thread, including copies of one Context. The
/// caller orders uses of one object.
/// Context: leaves the caller's current context unchanged.
/// During capture: harmless.
class Context {
public:
  /// An empty Context. A Context is also empty after a move. No driver call.
  Context() noexcept = default;

  /// The primary context of the device with ordinal `device`, retained until the last copy is
  /// gone. Driver functions: cuDeviceGet, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease.
  /// Throws InvalidDevice if there is no such device.
  [[nodiscard]] static Context primary(int device, const Driver& driver = Driver::instance());

  /// Creates a context on the device with ordinal `device`, without leaving it current. The last
  /// copy destroys the context. Driver functions: cuCtxCreate, cuCtxDestroy. Throws InvalidDevice
  /// if there is no such device.
  [[nodiscard]] static Context create(int device, const Driver& driver = Driver::instance());

  /// Refers to a context that the caller keeps alive. Driver function: cuCtxGetId. Throws
  /// InvalidContext for null, ContextLost for a context that has ended.
  [[nodiscard]] static Context borrow(CUcontext context, const Driver& driver = Driver::instance());

  /// Borrows the calling thread's current context. Driver functions: cuCtxGetCurrent, cuCtxGetId.
  /// Throws InvalidContext if no context is current.
  [[nodiscard]] static Context current(const Driver& driver = Driver::instance());

  /// Non-throwing overloads. `out` is assigned on success only.
  [[nodiscard]] static CUresult try_primary(Context& out, int device, const Driver& driver) noexcept;
  [[nodiscard]] static CUresult try_create(Context& out, int device, const Driver& driver) noexcept;
  [[nodiscard]] static CUresult try_borrow(Context& out, CUcontext context, const Driver& driver) noexcept;
  [[nodiscard]] static CUresult try_current(Context& out, const Driver& driver) noexcept;

  Context(const Context& other) noexcept : Context(other.driver_, other.context_, other.share()) {}
  Context(Context&& other) noexcept : Context() { swap(other); }
  Context& operator=(Context other) noexcept {
    swap(other);
    return *this;
  }
  ~Context() {
    if (owns() && __atomic_fetch_sub(&shared()->references, 1, __ATOMIC_ACQ_REL) == 1) end();
  }

  CUcontext native_handle() const noexcept { return context_; }
  const Driver& driver() const noexcept { return driver_; }

  /// The driver's id of the context. The driver never reuses an id within a process, but it reuses
  /// handles, for instance when a primary context is retained again after a reset. Returns 0 if
  /// empty. No driver call.
  unsigned long long id() const noexcept {
    return owns() ? shared()->id : static_cast<unsigned long long>(-identity_);
  }

  /// Returns CUDA_SUCCESS while the context exists, and CUDA_ERROR_CONTEXT_IS_DESTROYED once it is
  /// gone, even if a later context has the same handle. Driver function: cuCtxGetId.
  [[nodiscard]] CUresult status() const noexcept {
    unsigned long long now = ~0ULL; // no context's id; a failed call leaves it
    const CUresult result = driver_.table().cuCtxGetId_v12000(context_, &now);
    if (__builtin_expect(has_id(now), true)) return CUDA_SUCCESS;
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }

  /// The ordinal of the context's device. Driver functions: as ContextGuard, and cuCtxGetDevice.
  /// Throws ContextLost if the context is gone, InvalidContext if empty.
  int device() const;

  void swap(Context& other) noexcept {
    const Driver driver = driver_;
    driver_ = other.driver_;
    other.driver_ = driver;
    CUcontext const context = context_;
    context_ = other.context_;
    other.context_ = context;
    const std::int64_t identity = identity_;
    identity_ = other.identity_;
    other.identity_ = identity;
  }

  explicit operator bool() const noexcept { return context_ != nullptr; }
  /// True if both refer to the same context of the same driver, regardless of who owns it. A later
  /// context that has the same handle is not equal.
  friend bool operator==(const Context& a, const Context& b) noexcept {
    return a.context_ == b.context_ && a.driver_ == b.driver_ && a.id() == b.id();
  }
  friend bool operator!=(const Context& a, const Context& b) noexcept { return !(a == b); }

private:
  friend class EventAccess; // makes one that has a driver and no handle
  friend class ContextGuard;
  friend class DriverEvent;
  enum class Kind : unsigned char { primary, created };
  struct Shared { // one for all copies of an owning Context
    unsigned references = 1;
    unsigned long long id = 0;
  };
  struct [[gnu::visibility("hidden")]] Owner; // a Shared, and what is needed to end the context
  [[nodiscard]] static CUresult try_own(Context& out, int device, const Driver& driver, Kind kind) noexcept;
  Context(const Driver& driver, CUcontext context, std::int64_t identity) noexcept
      : driver_(driver), context_(context), identity_(identity) {}
  bool owns() const noexcept { return identity_ > 0; }
  Shared* shared() const noexcept { return reinterpret_cast<Shared*>(identity_); }
  bool has_id(unsigned long long id) const noexcept {
    // For a borrowed context, identity_ == -id.
    return owns() ? shared()->id == id : identity_ + static_cast<std::int64_t>(id) == 0;
  }
  /// Whether the context is current. A later context can have the handle, so this also compares the
  /// id. `asked` is the result of the last driver call. A failed call leaves the answer as it was,
  /// so comparing the answer suffices: neither 1 nor a handle is the id or the handle expected.
  [[gnu::always_inline]] bool is_current(const DriverTable& table, CUresult& asked) const noexcept {
    union {
      unsigned long long id;
      CUcontext handle;
    } answer{1};
    const unsigned long long own = id(); // read before the calls, while it is in a register
    asked = table.cuCtxGetCurrent_v4000(&answer.handle);
    if (__builtin_expect(answer.handle != context_, false)) return false;
    asked = table.cuCtxGetId_v12000(context_, &answer.id);
    return __builtin_expect(answer.id == own, true);
  }
  /// Counts one more copy and returns `identity_`. Before the copy is written, because compilers
  /// forget at an atomic operation what they have written.
  std::int64_t share() const noexcept {
    const std::int64_t identity = identity_;
    if (identity > 0) __atomic_fetch_add(&shared()->references, 1, __ATOMIC_RELAXED);
    return identity;
  }
  void end() noexcept;

  Driver driver_;
  CUcontext context_ = nullptr;
  // Positive: the address of the Shared. Negative: minus the id of a borrowed context, so that
  // copying a borrowed Context needs neither memory nor an atomic operation. It is one word
  // because a DriverEvent has at most 40 bytes.
  std::int64_t identity_ = 0;
};

/// True for 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. To the driver, these handles mean a
/// stream of the current context. No driver call.
inline bool is_default_stream(CUstream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

/// Makes a context current on the calling thread for a scope. Use it around driver calls of your
/// own. It does nothing if the context is already current.
///
///     CUcontext now = nullptr;
///     const ContextGuard current(context);
///     driver.table().cuCtxGetCurrent_v4000(&now); // the handle of `context`
///
/// Thread-safety: belongs to the thread that made it and must not live across a co_await.
/// Context: changes the current context. The Context must outlive the guard.
/// During capture: harmless.
class ContextGuard {
public:
  /// Makes `context` current. A destroyed context is never pushed, because that can end the
  /// process. Driver functions: cuCtxGetCurrent, cuCtxGetId; also cuCtxPushCurrent if `context` is
  /// not current yet. Throws InvalidContext for an empty Context, ContextIsDestroyed for one
  /// that is gone, or the error of cuCtxPushCurrent.
  [[nodiscard]] explicit ContextGuard(const Context& context) : driver_(context.driver()) {
    if (const CUresult result = enter(context); result != CUDA_SUCCESS) fail(context, result);
  }

  /// The non-throwing overload. The context is current if `result` is CUDA_SUCCESS.
  [[nodiscard]] ContextGuard(const Context& context, CUresult& result) noexcept : driver_(context.driver()) {
    result = enter(context);
  }

  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  /// Restores the previous context. On another thread, or if another context is current by then,
  /// it undoes nothing and reports to the error hook. Driver function: cuCtxPopCurrent.
  ~ContextGuard() {
    // __builtin_expect, here and in the other headers, as [[unlikely]] is C++20.
    if (__builtin_expect(pushed_ != nullptr, false)) pop();
  }

private:
  CUresult enter(const Context& context) noexcept {
    CUresult asked;
    return context.is_current(driver_.table(), asked) ? CUDA_SUCCESS : push(context, asked);
  }
  CUresult push(const Context& context, CUresult asked) noexcept;
  void pop() noexcept;
  [[noreturn, gnu::cold]] static void fail(const Context& context, CUresult result);

  Driver driver_;
  CUcontext pushed_ = nullptr; // null if there is nothing to undo
  const void* thread_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
