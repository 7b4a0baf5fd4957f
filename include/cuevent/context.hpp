// Contexts: who owns one, and making one current for a scope.
#pragma once

#include <cuevent/driver.hpp>

#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent {

/// A CUcontext and the driver it belongs to. A Context from primary() or create() owns: copies share it,
/// and the last one releases or destroys it. One from borrow() or current() does not: the caller keeps the
/// context alive for as long as anything here uses it. Empty if default-made or moved from.
///
/// The driver gives the handle of a context that has ended to a later one, for instance to a primary context
/// that is retained again after a reset. A Context therefore remembers the id of its context, which the driver
/// never uses twice: it is equal to no later context, and status() says that its own is gone.
///
/// Thread-safety: distinct objects may be used from any thread, also copies of one; one object under the
/// caller's ordering.
/// Context: the caller's current context is the same after every call as before it.
/// During capture: making, copying and dropping a Context harms no capture.
class Context {
public:
  Context() noexcept = default;

  /// The primary context of the device of that ordinal, retained until the last copy is gone.
  /// Driver functions: cuDeviceGet, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease.
  static Context primary(int device, const Driver& driver = Driver::instance());

  /// A new context of that device, which is not left current. Driver functions: cuCtxCreate, cuCtxDestroy.
  static Context create(int device, const Driver& driver = Driver::instance());

  /// A context that the caller keeps alive. Throws InvalidContext for null, ContextLost for a context that has
  /// ended. Driver function: cuCtxGetId.
  static Context borrow(CUcontext context, const Driver& driver = Driver::instance());

  /// Borrows the calling thread's current context. Throws InvalidContext if there is none.
  /// Driver functions: cuCtxGetCurrent, cuCtxGetId.
  static Context current(const Driver& driver = Driver::instance());

  /// The non-throwing overloads: `out` is assigned on success only.
  static CUresult try_primary(Context& out, int device, const Driver& driver) noexcept;
  static CUresult try_create(Context& out, int device, const Driver& driver) noexcept;
  static CUresult try_borrow(Context& out, CUcontext context, const Driver& driver) noexcept;
  static CUresult try_current(Context& out, const Driver& driver) noexcept;

  Context(const Context& other) noexcept
      : driver_(other.driver_), context_(other.context_), identity_(other.identity_) {
    if (owns()) __atomic_fetch_add(&shared()->references, 1, __ATOMIC_RELAXED);
  }
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

  /// The driver's number for the context, which no other context of the process ever has; 0 if empty. No driver
  /// call.
  unsigned long long id() const noexcept {
    return owns() ? shared()->id : static_cast<unsigned long long>(-identity_);
  }

  /// Success while the context exists, CUDA_ERROR_CONTEXT_IS_DESTROYED once it does not, also when its handle
  /// belongs to a later context by now. Driver function: cuCtxGetId.
  CUresult status() const noexcept {
    unsigned long long now;
    const CUresult result = driver_.table().cuCtxGetId_v12000(context_, &now);
    if (result != CUDA_SUCCESS) return result;
    // For a borrowed context, identity_ == -now.
    const bool same = owns() ? shared()->id == now : identity_ + static_cast<std::int64_t>(now) == 0;
    return same ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }

  /// The ordinal of the context's device. Driver function: cuCtxGetDevice.
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
  /// The same context of the same driver, whoever owns it.
  friend bool operator==(const Context& a, const Context& b) noexcept {
    return a.context_ == b.context_ && a.driver_ == b.driver_ && a.id() == b.id();
  }
  friend bool operator!=(const Context& a, const Context& b) noexcept { return !(a == b); }

private:
  enum class Kind : unsigned char { primary, created };
  struct Shared { // by the copies of one that owns
    unsigned references = 1;
    unsigned long long id = 0;
  };
  struct [[gnu::visibility("hidden")]] Owner; // a Shared with what its end takes
  static CUresult try_own(Context& out, int device, const Driver& driver, Kind kind) noexcept;
  Context(const Driver& driver, CUcontext context, std::int64_t identity) noexcept
      : driver_(driver), context_(context), identity_(identity) {}
  bool owns() const noexcept { return identity_ > 0; }
  Shared* shared() const noexcept { return reinterpret_cast<Shared*>(identity_); }
  void end() noexcept;

  Driver driver_;
  CUcontext context_ = nullptr;
  // Positive: the address of the Shared. Negative: minus the id of a borrowed context, a copy of which therefore
  // needs neither memory nor an atomic operation. In one word, as a DriverEvent has at most 40 bytes.
  std::int64_t identity_ = 0;
};

/// True for 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, which mean a stream of whichever context is
/// current.
inline bool is_default_stream(CUstream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

/// Makes a context current on the calling thread until the end of the scope; where it is current already,
/// does nothing. A context that the driver knows to be destroyed is never pushed: that can end the process.
/// Driver functions: cuCtxGetCurrent, and if need be cuCtxGetId, cuCtxPushCurrent, cuCtxPopCurrent.
///
/// Thread-safety: belongs to the thread that made it, and must not live across a co_await. One destroyed on
/// another thread, or when something else is current, reports to the error hook and undoes nothing.
/// Context: this is what changes it. It is not kept alive: the Context outlives the guard.
/// During capture: harmless.
class ContextGuard {
public:
  /// Throws InvalidContext for an empty Context, ContextIsDestroyed, or what cuCtxPushCurrent refuses.
  [[nodiscard]] explicit ContextGuard(const Context& context) : driver_(context.driver()) {
    if (const CUresult result = enter(context); result != CUDA_SUCCESS) fail(context, result);
  }

  /// The twin that does not throw: `result` tells whether the context is current.
  [[nodiscard]] ContextGuard(const Context& context, CUresult& result) noexcept : driver_(context.driver()) {
    result = enter(context);
  }

  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() {
    // __builtin_expect, here and in the other headers, as [[unlikely]] is C++20.
    if (__builtin_expect(pushed_ != nullptr, false)) pop();
  }

private:
  CUresult enter(const Context& context) noexcept {
    CUcontext current = nullptr;
    const CUresult result = driver_.table().cuCtxGetCurrent_v4000(&current);
    if (__builtin_expect(result != CUDA_SUCCESS, false)) return context ? result : CUDA_ERROR_INVALID_CONTEXT;
    return current == context.native_handle() ? CUDA_SUCCESS : push(context);
  }
  CUresult push(const Context& context) noexcept;
  void pop() noexcept;
  [[noreturn, gnu::cold]] static void fail(const Context& context, CUresult result);

  Driver driver_;
  CUcontext pushed_ = nullptr; // null if there is nothing to undo
  const void* thread_ = nullptr;
};

} // namespace cuevent
#pragma GCC visibility pop
