// SPDX-License-Identifier: MIT
#include <cuevent/end_notice.hpp>

#include <cuevent/error.hpp>

#include <cerrno>
#include <cstdint>
#include <new>
#include <sys/eventfd.h>
#include <unistd.h>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* get_descriptor = "EndNotice::native_handle";

void make_readable(int descriptor) noexcept {
  const std::uint64_t one = 1;
  while (write(descriptor, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

} // namespace

/// With two holders: the first notice, and the user object of the graph.
EndNotice::State* EndNotice::make() noexcept { return new (std::nothrow) State{2, 0, -1}; }

EndNotice::EndNotice(const EndNotice& other) noexcept : state_(other.state_) {
  if (state_ != nullptr) __atomic_fetch_add(&state_->holders, 1, __ATOMIC_RELAXED);
}

EndNotice::~EndNotice() {
  if (state_ != nullptr) drop(state_);
}

void EndNotice::drop(State* state) noexcept {
  if (__atomic_fetch_sub(&state->holders, 1, __ATOMIC_ACQ_REL) != 1) return;
  if (state->descriptor >= 0) close(state->descriptor);
  delete state;
}

/// The destructor of the user object. A thread of the driver calls this function, which must not call the
/// driver. It keeps errno, in case that is a thread of the program.
void EndNotice::end(void* ended) noexcept {
  auto* const state = static_cast<State*>(ended);
  const int before = errno;
  __atomic_store_n(&state->ended, 1, __ATOMIC_SEQ_CST);
  const int descriptor = __atomic_load_n(&state->descriptor, __ATOMIC_SEQ_CST);
  if (descriptor >= 0) make_readable(descriptor);
  drop(state);
  errno = before;
}

CUresult EndNotice::try_native_handle(int& out) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  int descriptor = __atomic_load_n(&state_->descriptor, __ATOMIC_ACQUIRE);
  if (descriptor < 0) {
    const int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    if (__atomic_compare_exchange_n(&state_->descriptor, &descriptor, made, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_ACQUIRE)) {
      descriptor = made;
      // Either end() sees the descriptor, or this sees the end.
      if (__atomic_load_n(&state_->ended, __ATOMIC_SEQ_CST) != 0) make_readable(descriptor);
    } else {
      close(made); // another thread was first
    }
  }
  out = descriptor;
  return CUDA_SUCCESS;
}

int EndNotice::native_handle() {
  int descriptor = -1;
  const CUresult result = try_native_handle(descriptor);
  if (result == CUDA_ERROR_INVALID_HANDLE)
    throw_error(CUDA_ERROR_INVALID_HANDLE, get_descriptor,
                "the notice belongs to no graph: make one with Graph::end_notice()");
  if (result != CUDA_SUCCESS)
    throw_error(CUDA_ERROR_OPERATING_SYSTEM, get_descriptor,
                "the kernel makes no eventfd: raise the limit of open files, or ask ended()");
  return descriptor;
}

}} // namespace cuevent::CUEVENT_ABI
