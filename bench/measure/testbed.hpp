// SPDX-License-Identifier: MIT
// What all parts of the benchmark use: a device, streams, and how a measurement is written.
#pragma once

#include "spin.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/measure.hpp>

#include <gpu.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

namespace measuring {

using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::Measurement;
using cuevent::MeasureOptions;
using namespace std::chrono_literals;

/// A measurement, and for how long the host was busy with it.
struct Timed {
  Measurement found;
  double seconds = 0;
};

class Testbed {
public:
  explicit Testbed(const gpu::Gpu& gpu) : gpu_(gpu) {}

  const gpu::Gpu& gpu() const { return gpu_; }
  const Spin& spin() const { return spin_; }
  CUstream stream() const { return stream_; } ///< the measured one
  CUstream other() const { return other_; }

  template <class Work>
  Timed measure(Work&& work, const MeasureOptions& options = {}) const {
    const auto begun = std::chrono::steady_clock::now();
    Timed timed;
    timed.found = cuevent::measure(gpu_.context, stream_, std::forward<Work>(work), options);
    timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return timed;
  }

  /// The time of one run, or of several in a row, between two events, in us.
  template <class Work>
  double between_events(Work&& work, int runs = 1) const {
    start_.record(stream_);
    for (int i = 0; i < runs; ++i)
      work(stream());
    end_.record(stream_);
    end_.synchronize();
    return 1000 * static_cast<double>(start_.elapsed_time(end_).count());
  }

  /// Waits for all work of the context.
  void finish() const {
    cuevent::DriverEvent all(gpu_.context);
    all.record_context(gpu_.context);
    all.synchronize();
  }

private:
  const gpu::Gpu& gpu_;
  const Spin spin_{gpu_};
  const gpu::Stream stream_ = gpu_.stream(), other_ = gpu_.stream();
  mutable DriverEvent start_{gpu_.context, EventFlags::timing}, end_{gpu_.context, EventFlags::timing};
};

/// "5 us" or "20 ms".
inline std::string text_of(Length length) {
  return length >= 1ms ? std::to_string(length / 1ms) + " ms" : std::to_string(length / 1us) + " us";
}

inline double us(cuevent::DeviceTime time) { return time.count() / 1000; }

/// "3 of 20 escaped, 1 of 20 disturbed", or nothing.
inline std::string evidence(const Measurement& found) {
  std::string text;
  const auto add = [&](std::size_t count, const char* what) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " +
            std::to_string(found.samples.size()) + " " + what;
  };
  add(found.escaped, "escaped");
  add(found.disturbed, "disturbed");
  add(found.unheld, "without the hold");
  return text;
}

/// Each part prints a table. It returns whether everything was as it should be.
bool catch_cheats(const Testbed& testbed);
bool measure_honest_work(const Testbed& testbed);
bool measure_known_lengths(const Testbed& testbed);
bool measure_again_and_again(const Testbed& testbed);

} // namespace measuring
