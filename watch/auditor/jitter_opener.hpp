// SPDX-License-Identifier: MIT
// The thread that opens the words for which streams wait. It never calls the driver.
#pragma once

namespace watch {

/// Starts the thread, if it does not run yet. If it cannot run, nothing is held.
void start_opener();
/// A word was closed.
void wake_opener();
/// Opens all words, and closes none any more.
void end_holds();

} // namespace watch
