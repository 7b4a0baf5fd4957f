// SPDX-License-Identifier: MIT
// A stream that belongs to a StageTimer. Inside the library only.
#pragma once

#include "core/status.hpp"

#include <cuevent/context.hpp>

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A stream that does not synchronize with the legacy default stream. The destructor destroys it,
/// unless the context is gone and has taken the stream with it.
class TimerStream {
public:
  /// In the current context, which must be `context`. Driver function: cuStreamCreate.
  CUresult create(const Context& context) noexcept {
    context_ = context;
    const CUresult result = context.driver().table().cuStreamCreate_v2000(&handle_, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) handle_ = nullptr;
    return result;
  }

  TimerStream() noexcept = default;
  TimerStream(TimerStream&& other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}
  TimerStream& operator=(TimerStream&&) = delete;
  ~TimerStream() {
    if (handle_ == nullptr) return;
    const CUresult lost = context_.status();
    report_end(lost == CUDA_SUCCESS ? context_.driver().table().cuStreamDestroy_v4000(handle_) : lost,
               "cuStreamDestroy");
  }

  CUstream handle() const noexcept { return handle_; }

private:
  Context context_;
  CUstream handle_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
