// SPDX-License-Identifier: MIT
// The fault sweep: runs every test of this program again, and makes its driver calls fail one by one.
#pragma once

namespace Catch {
class Session;
}

namespace test {

/// Runs each test that the command line of `session` selects: once without faults, then once for each
/// driver call that cuevent made and for each of several results. That call fails with that result, either
/// alone or together with all later calls. Runs every `stride`-th of these faults, and fewer for long
/// tests. The assertions of the test may fail in these runs, and are ignored. These must hold instead:
/// - Every exception is a DriverError with the result and the class of the fault, or with the
///   driver's own result,
///   unless something has visibly gone wrong before.
/// - Errors that destructors report have the result of the fault.
/// - Each fault is visible, unless cuevent was only finding out why another call failed.
/// - The fixture finds nothing left behind: no context, handle or capture mode.
/// - Nothing crashes or hangs.
/// Prints each violation and a summary. Returns an exit code.
int sweep(Catch::Session& session, int stride);

} // namespace test
