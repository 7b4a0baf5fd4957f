// SPDX-License-Identifier: MIT
#include <cuevent/stream_ref.hpp>

#include "recording_fixture.hpp"

#include <cstddef>
#include <type_traits>

using namespace cuevent;
using namespace test;

namespace {

/// A stream class of another library.
struct TheirStream {
  CUstream handle;
  operator CUstream() const noexcept { return handle; }
};
struct Unrelated {};

static_assert(std::is_trivially_copyable_v<StreamRef> && sizeof(StreamRef) == 2 * sizeof(void*));
static_assert(std::is_convertible_v<TheirStream, StreamRef> && std::is_convertible_v<CUstream, StreamRef>);
static_assert(std::is_nothrow_convertible_v<std::nullptr_t, StreamRef>);
static_assert(!std::is_convertible_v<Unrelated, StreamRef> && !std::is_convertible_v<int, StreamRef> &&
              !std::is_convertible_v<Context, StreamRef>);

/// What a function that takes a stream receives.
StreamRef received(StreamRef stream) { return stream; }

} // namespace

TEST_CASE("a stream can be given in each way that programs name one") {
  const TheirStream theirs{stream_handle(1)};
  CHECK(received(theirs).native_handle() == theirs.handle);
  CHECK(received(0).native_handle() == nullptr);
  CHECK(received(nullptr).native_handle() == nullptr);
  CHECK(received(CU_STREAM_LEGACY).native_handle() == CU_STREAM_LEGACY);
  CHECK(received(theirs).context() == nullptr);
}

TEST_CASE_METHOD(RecordingFixture, "only a default stream or a named context takes the longer way") {
  const Context own = Context::borrow(context_handle(1), driver);
  const TheirStream theirs{stream_handle(1)};
  CHECK_FALSE(received(theirs).needs_context());
  CHECK(received(nullptr).needs_context());
  CHECK(received(CU_STREAM_PER_THREAD).needs_context());
  CHECK(received({own, theirs}).needs_context());
  CHECK(received({own, theirs}).context() == &own);
  const Context none;
  CHECK(&received(theirs).context_or(none) == &none);
  CHECK(&received({own, nullptr}).context_or(none) == &own);
}
