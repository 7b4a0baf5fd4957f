// SPDX-License-Identifier: MIT
// Checks of the Context passed to a call. Internal to the library.
#pragma once

#include "core/failure.hpp"
#include "core/status.hpp"

#include <cuevent/stream_ref.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

inline void require_context(const Context& context, const char* call) {
  if (!context)
    fail(CUDA_ERROR_INVALID_CONTEXT, call, "the Context is empty: take one from Context::primary()");
}

/// Checks that `given` is `own`. For calls that take a context to identify a default stream.
inline CUresult check_context(const Context& own, const Context& given) noexcept {
  if (!given) return CUDA_ERROR_INVALID_CONTEXT;
  return given == own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// Checks that `given` is a context of the driver of `own`. For calls that also take other contexts.
inline CUresult check_driver(const Context& own, const Context& given) noexcept {
  if (!given) return CUDA_ERROR_INVALID_CONTEXT;
  return given.driver() == own.driver() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// For calls that act on streams of `own` only.
inline CUresult check_context(const Context& own, StreamRef stream) noexcept {
  return stream.context() != nullptr ? check_context(own, *stream.context()) : CUDA_SUCCESS;
}

/// What to do if check_home() finds another context.
inline constexpr const char* name_its_context =
    "the stream does not belong to the context: pass the context of the stream";

/// For calls that keep a stream together with the context that the caller has named: checks that the stream
/// belongs to the context. A default stream does, because the context says which one is meant. The context
/// may have ended, and the stream with it, so the context is asked first. Driver functions: cuCtxGetId,
/// cuStreamGetCtx.
inline Status check_home(const Context& named, CUstream stream) noexcept {
  if (is_default_stream(stream)) return {};
  if (const CUresult lost = named.status(); lost != CUDA_SUCCESS) return {lost, "cuCtxGetId"};
  CUcontext home = nullptr;
  const CUresult result = named.driver().table().cuStreamGetCtx_v9020(stream, &home);
  if (result != CUDA_SUCCESS) return {result, "cuStreamGetCtx"};
  if (home == named.native_handle()) return {};
  return {CUDA_ERROR_INVALID_HANDLE, "cuStreamGetCtx", Reason::other_context};
}

}} // namespace cuevent::CUEVENT_ABI
