// SPDX-License-Identifier: MIT
// A program that uses cuevent, and makes a mistake in a callback.
#include <cuevent/context.hpp>
#include <cuevent/driver_event.hpp>

#include <functional>

int main() {
  const cuevent::Context context = cuevent::Context::primary(0);
  const std::function<void()> forget_record = [&] {
    cuevent::DriverEvent event(context);
    event.wait(CU_STREAM_PER_THREAD);
  };
  forget_record();
  return 0;
}
