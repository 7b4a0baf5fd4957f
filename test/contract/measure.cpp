// SPDX-License-Identifier: MIT
// Measurements: what is proved, and what each way to escape the time does.
#include "gate.hpp"
#include "stage_fixture.hpp"
#include "stream.hpp"
#include "thrown.hpp"

#include "timing/sampler.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/measure.hpp>
#include <cuevent/text.hpp>

#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <thread>

using namespace cuevent;
using namespace test;
using Catch::Matchers::WithinRel;

namespace {

constexpr int first_version = 12050; // of cuCtxRecordEvent and cuCtxWaitEvent

/// Few samples, because the calls of each test are also made to fail in turn. The hold may last, because a
/// busy machine submits slowly.
MeasureOptions few() {
  MeasureOptions options;
  options.hold_limit = 5s;
  options.least_samples = options.most_samples = 3;
  options.precision = 0.9;
  return options;
}

class MeasureFixture : public StageFixture {
protected:
  /// Less memory than other tests have, because a simulated fill writes it.
  void work(CUstream on) const { StageFixture::work(on, 64 << 10); }
  /// Some 30 pieces of work, so that what escapes is longer than any margin.
  void long_work(CUstream on) const {
    for (int i = 0; i < 30; ++i)
      work(on);
  }

  /// Work of the other stream that ends a while after it was submitted.
  class LaterWork {
  public:
    LaterWork(const MeasureFixture& of, DeviceTime margin)
        : gate_(of.other), held_(20ms + std::chrono::duration_cast<std::chrono::nanoseconds>(2 * margin)) {
      of.long_work(of.other);
    }
    LaterWork(const LaterWork&) = delete;
    LaterWork& operator=(const LaterWork&) = delete;
    ~LaterWork() { opener_.join(); }

  private:
    Gate gate_;
    std::chrono::nanoseconds held_;
    std::thread opener_{[this] {
      std::this_thread::sleep_for(held_);
      gate_.open();
    }};
  };

  void calibrate(Sampler& sampler, std::chrono::nanoseconds hold_limit) const {
    REQUIRE(sampler.create(context, stream, hold_limit));
    REQUIRE(sampler.calibrate());
  }

  const Stream stream{context}, other{context};
};

} // namespace

TEST_CASE_METHOD(MeasureFixture, "the time of work on one stream is proved") {
  const Measurement found = measure(
      context, stream, [&](CUstream on) { long_work(on); }, few());
  INFO(found.doubt());
  CHECK(found.proved());
  CHECK(found.doubt().empty());
  CHECK(found.samples.size() == 3);
  CHECK(found.warm_up >= 1);
  for (const MeasuredSample& sample : found.samples) {
    CHECK(sample.held);
    CHECK(sample.time >= found.minimum);
    CHECK(sample.time <= found.maximum);
  }
  CHECK(found.low <= found.median);
  CHECK(found.median <= found.high);
  CHECK(found.minimum <= found.first_quartile);
  CHECK(found.third_quartile <= found.maximum);
  CHECK(found.empty_pair < found.median);
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(MeasureFixture, "work of several streams is proved if the measured stream waits for all") {
  DriverEvent forked(context), joined(context);
  const auto fork = [&](CUstream on) {
    forked.record(on);
    forked.wait(other);
    long_work(other);
    work(on);
    joined.record(other);
    joined.wait(on);
  };
  const Measurement found = measure(context, stream, fork, few());
  INFO(found.doubt());
  CHECK(found.proved());
}

TEST_CASE_METHOD(MeasureFixture, "work that escapes to another stream is found") {
  test::need(first_version);
  const auto decoy = [&](CUstream on) {
    work(on);
    long_work(other);
  };
  const auto in_a_thread = [&](CUstream on) {
    work(on);
    std::thread([&] { long_work(other); }).join();
  };
  const auto in_the_default_stream = [&](CUstream on) {
    work(on);
    long_work(CU_STREAM_LEGACY);
  };
  const auto in_the_stream_of_the_thread = [&](CUstream on) {
    work(on);
    long_work(CU_STREAM_PER_THREAD);
  };
  DriverEvent event(context);
  const auto fork_without_a_join = [&](CUstream on) {
    event.record(on);
    event.wait(other);
    long_work(other);
    work(on);
  };
  const auto check = [&](auto&& work) {
    const Measurement found = measure(context, stream, work, few());
    CHECK_FALSE(found.proved());
    CHECK(found.escaped == found.samples.size());
    CHECK(found.samples.front().tail > found.margin);
    CHECK_THAT(found.doubt(), ContainsSubstring("Work escaped: in 3 of 3 samples"));
    CHECK_THAT(to_string(found), ContainsSubstring("not proved. Work escaped"));
  };
  check(decoy);
  check(in_a_thread);
  check(in_the_default_stream);
  check(in_the_stream_of_the_thread);
  check(fork_without_a_join);
}

TEST_CASE_METHOD(MeasureFixture, "on a driver of any age, work in a stream that blocks cannot escape") {
  const Stream blocking(context, CU_STREAM_DEFAULT);
  const auto decoy = [&](CUstream on) {
    work(on);
    long_work(blocking);
  };
  const Measurement found = measure(context, stream, decoy, few());
  CHECK(found.escaped == found.samples.size());
  const bool whole = driver.version() >= first_version;
  CHECK(found.scope == (whole ? MeasuredScope::context : MeasuredScope::blocking_streams));
}

TEST_CASE_METHOD(MeasureFixture, "work that waits for the device is measured without the hold") {
  MeasureOptions options = few();
  options.hold_limit = 5ms;
  DriverEvent event(context);
  const auto waits = [&](CUstream on) {
    work(on);
    event.record(on);
    event.synchronize();
  };
  const Measurement found = measure(context, stream, waits, options);
  CHECK_FALSE(found.proved());
  CHECK(found.unheld == found.samples.size());
  CHECK(found.escaped == 0);
  CHECK_FALSE(found.samples.front().held);
  CHECK_THAT(found.doubt(), ContainsSubstring("the device may have waited for the host"));
}

TEST_CASE_METHOD(MeasureFixture, "the first call of the work may wait for the device") {
  DriverEvent event(context);
  std::size_t calls = 0;
  const auto loads = [&](CUstream on) {
    long_work(on);
    if (calls++ != 0) return;
    event.record(on);
    event.synchronize();
  };
  const Measurement found = measure(context, stream, loads, few());
  INFO(found.doubt());
  CHECK(found.proved());
  CHECK(calls == found.samples.size() + found.warm_up); // no hold ended early
}

TEST_CASE_METHOD(MeasureFixture, "samples that are precise when the time is over are proved") {
  if (!time_is_virtual()) return;
  MeasureOptions options;
  options.time_limit = 2ms;
  options.least_samples = 1000;
  const Measurement found = measure(
      context, stream, [&](CUstream on) { long_work(on); }, options);
  INFO(found.doubt());
  CHECK(found.samples.size() >= 6);
  CHECK(found.samples.size() < 1000);
  CHECK(found.end == MeasuredEnd::precise);
  options.time_limit = 0ms; // 3 samples have no interval of 95 %
  const Measurement few_samples = measure(
      context, stream, [&](CUstream on) { long_work(on); }, options);
  CHECK(few_samples.samples.size() == 3);
  CHECK(few_samples.end == MeasuredEnd::time_limit);
}

TEST_CASE_METHOD(MeasureFixture, "samples from before the times have settled become warm-up") {
  if (!time_is_virtual()) return;
  std::size_t calls = 0;
  const auto settles = [&](CUstream on) { // steady for long enough to end the first warm-up
    long_work(on);
    if (calls++ >= 24) return;
    for (int i = 0; i < 3; ++i)
      work(on);
  };
  MeasureOptions options; // a busy machine submits slowly
  options.hold_limit = 5s;
  options.time_limit = 1min;
  const Measurement found = measure(context, stream, settles, options);
  INFO(found.doubt());
  CHECK(found.proved());
  CHECK(found.warm_up > 10);
  CHECK(found.samples.size() >= 20);
  CHECK(calls == found.samples.size() + found.warm_up);

  calls = 0;
  MeasureOptions impatient; // no time to wait until the times settle
  impatient.time_limit = 0ms;
  CHECK(measure(context, stream, settles, impatient).warm_up == 1);

  calls = 0;
  std::size_t calls_of_b = 0;
  const auto steady = [&](CUstream on) {
    long_work(on);
    ++calls_of_b;
  };
  const Comparison compared = compare(context, stream, settles, steady, options);
  INFO(compared.doubt());
  CHECK(compared.proved());
  CHECK(compared.doubt().empty());
  CHECK(compared.a.samples.size() == compared.b.samples.size());
  CHECK(calls + calls_of_b == 2 * compared.a.samples.size() + compared.a.warm_up + compared.b.warm_up);
}

TEST_CASE_METHOD(MeasureFixture, "an exception of the work lets the context go") {
  struct Failed {};
  const auto fails = [&](CUstream on) {
    work(on);
    throw Failed();
  };
  CHECK_THROWS_AS(measure(context, stream, fails, few()), Failed);
  DriverEvent done(context);
  done.record(stream);
  CHECK(done.synchronize_for(1min));

  const auto refuses = [] { return CUDA_ERROR_NOT_PERMITTED; };
  CHECK_THROWS_AS(measure(context, stream, refuses, few()), NotPermitted);
  Measurement out;
  CHECK(try_measure(out, context, stream, refuses, few()) == CUDA_ERROR_NOT_PERMITTED);
  CHECK(out.samples.empty());
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(MeasureFixture, "a function is measured, and so is a constant object") {
  static int calls;
  calls = 0;
  struct Function {
    static void submit(CUstream) { ++calls; }
  };
  const Measurement found = measure(context, stream, Function::submit, few());
  CHECK(found.samples.size() == 3);
  CHECK(calls == static_cast<int>(found.samples.size() + found.warm_up));
  const auto constant = [&](CUstream on) { long_work(on); };
  CHECK(measure(context, stream, constant, few()).samples.size() == 3);
}

TEST_CASE_METHOD(MeasureFixture, "a graph is measured by its launches") {
  StreamCapture capture(context, stream);
  long_work(stream);
  GraphExec exec = capture.end().instantiate();
  const Measurement found = measure(context, stream, exec, few());
  INFO(found.doubt());
  CHECK(found.proved());
}

TEST_CASE_METHOD(MeasureFixture, "what runs between the samples is not timed") {
  MeasureOptions options = few();
  std::size_t calls = 0;
  options.between = [&](CUstream on) {
    CHECK(on == stream);
    long_work(other);
    ++calls;
  };
  const Measurement found = measure(
      context, stream, [&](CUstream on) { work(on); }, options);
  INFO(found.doubt());
  CHECK(found.escaped + found.disturbed + found.unheld == 0);
  CHECK(calls == found.samples.size() + found.warm_up);
}

TEST_CASE_METHOD(MeasureFixture, "two works are measured in turns") {
  const auto once = [&](CUstream on) { long_work(on); };
  const auto twice = [&](CUstream on) {
    long_work(on);
    long_work(on);
  };
  const Comparison found = compare(context, stream, twice, once, few());
  CHECK(found.a.samples.size() == found.b.samples.size());
  CHECK(found.low <= found.ratio);
  CHECK(found.ratio <= found.high);
  if (time_is_virtual()) CHECK_THAT(found.ratio, WithinRel(2.0, 0.1));
  Comparison tried;
  CHECK(tried.doubt() == "a: Nothing was measured. b: Nothing was measured.");
  CHECK(try_compare(tried, context, stream, twice, once, few()) == CUDA_SUCCESS);
  CHECK(tried.a.samples.size() == 3);
}

TEST_CASE_METHOD(MeasureFixture, "what cannot be measured is refused") {
  const auto nothing = [] {};
  CHECK_THROWS_AS(measure(Context(), stream, nothing), InvalidContext);
  CHECK_THROWS_AS(measure(context, stream, std::function<void()>()), InvalidValue);
  MeasureOptions wrong;
  wrong.precision = 0;
  CHECK_THROWS_AS(measure(context, stream, nothing, wrong), InvalidValue);
  wrong = MeasureOptions();
  wrong.least_samples = 2;
  CHECK_THROWS_AS(measure(context, stream, nothing, wrong), InvalidValue);
  wrong = MeasureOptions();
  wrong.overwrite_bytes = 1;
  Measurement out;
  CHECK(try_measure(out, context, stream, nothing, wrong) == CUDA_ERROR_INVALID_VALUE);
  CHECK(try_measure(out, Context(), stream, nothing) == CUDA_ERROR_INVALID_CONTEXT);

  StreamCapture capture(context, stream);
  CHECK_THROWS_AS(measure(context, stream, nothing), StreamCaptureUnsupported);
  CHECK(try_measure(out, context, stream, nothing) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_NOTHROW(capture.end());

  const Context created = Context::create(0, driver);
  CHECK_THROWS_AS(measure(created, stream, nothing), ContextMismatch);
  CHECK_THROWS_AS(measure(context, {created, nullptr}, nothing), ContextMismatch);
  CHECK_THROWS_AS(measure(context, {Context(), nullptr}, nothing), InvalidContext);
}

TEST_CASE_METHOD(MeasureFixture, "earlier work ends before a sample begins, and is noticed") {
  test::need(first_version);
  const ContextGuard current(context);
  Sampler sampler;
  calibrate(sampler, 1min);
  const auto nothing = [] {};
  bool in_time = false;
  for (const bool hold : {true, false}) {
    // A machine that takes a processor away between two records proves nothing: then the next sample has to.
    MeasuredSample sample;
    sample.escaped = true;
    for (int attempt = 0; attempt < 20 && (!sample.disturbed || sample.escaped); ++attempt) {
      const LaterWork earlier(*this, sampler.margin());
      REQUIRE(sampler.take(MeasuredWork(nothing), hold, sample, in_time));
      CHECK(in_time);
    }
    CHECK(sample.disturbed);
    CHECK_FALSE(sample.escaped);
    for (int attempt = 0; attempt < 20 && sample.disturbed; ++attempt)
      REQUIRE(sampler.take(MeasuredWork(nothing), hold, sample, in_time));
    CHECK_FALSE(sample.disturbed);
  }
}

TEST_CASE_METHOD(MeasureFixture, "the hold does not wait for earlier work beyond its limit") {
  test::need(first_version);
  const ContextGuard current(context);
  Sampler sampler;
  calibrate(sampler, 5ms);
  const auto nothing = [] {};
  MeasuredSample sample;
  bool in_time = true;
  for (int attempt = 0; attempt < 20 && in_time; ++attempt) { // on a busy machine, the work may have ended
    const LaterWork earlier(*this, sampler.margin());
    REQUIRE(sampler.take(MeasuredWork(nothing), true, sample, in_time));
  }
  CHECK_FALSE(in_time);
  CHECK_FALSE(sample.held);
}

TEST_CASE_METHOD(MeasureFixture, "work that runs after a sample is noticed") {
  test::need(first_version);
  const ContextGuard current(context);
  Sampler sampler;
  calibrate(sampler, 1min);
  bool ran = false;
  for (int attempt = 0; attempt < 20 && !ran; ++attempt) {
    const LaterWork earlier(*this, sampler.margin());
    REQUIRE(sampler.settle(ran));
  }
  CHECK(ran);
  for (int attempt = 0; attempt < 20 && ran; ++attempt)
    REQUIRE(sampler.settle(ran));
  CHECK_FALSE(ran);
}
