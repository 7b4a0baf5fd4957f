// SPDX-License-Identifier: MIT
/// \file
/// \brief StreamRef: the stream of one call, and for a default stream also its context.
#pragma once

#include <cuevent/context.hpp>

#include <type_traits>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The stream that a call is about, as a parameter. Callers pass a CUstream, an object that converts to
/// CUstream, or a default stream: 0, nullptr, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. Each context has
/// default streams of its own. The function says whose it takes if no context is named.
/// `{context, stream}` names it:
///
///     const Context second = Context::create(0, driver);
///     event.record(stream);
///     event.wait(nullptr);           // the default stream of the event's context
///     event.wait({second, nullptr}); // the default stream of `second`
///
/// With a context, a stream that is not a default stream is accepted too. A function that must act in one
/// context then refuses another one with ContextMismatch, and all refuse an empty one with InvalidContext.
///
/// Two words, passed in registers. Refers to the context, which can be a temporary of the call, so do not
/// store it.
///
/// Thread-safety: a value. Context: makes no driver call. During capture: harmless.
class StreamRef {
  template <class Stream>
  using IfConverts = std::enable_if_t<
      std::is_convertible_v<const Stream&, CUstream> && !std::is_same_v<std::decay_t<Stream>, CUstream>, int>;

public:
  StreamRef(CUstream stream) noexcept : stream_(stream) {}
  /// The stream classes of other libraries convert to CUstream by a member.
  template <class Stream, IfConverts<Stream> = 0>
  StreamRef(const Stream& stream) noexcept(noexcept(static_cast<CUstream>(stream))) : stream_(stream) {}
  /// A stream of `context`.
  StreamRef(const Context& context, CUstream stream) noexcept : stream_(stream), context_(&context) {}

  CUstream native_handle() const noexcept { return stream_; }
  /// The context that the caller named, or null.
  const Context* context() const noexcept { return context_; }
  /// The context that the caller named, or `own`.
  const Context& context_or(const Context& own) const noexcept {
    return context_ != nullptr ? *context_ : own;
  }
  /// Whether a call with the handle alone could mean another stream.
  bool needs_context() const noexcept { return context_ != nullptr || is_default_stream(stream_); }

private:
  CUstream stream_;
  const Context* context_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
