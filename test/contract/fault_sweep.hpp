// SPDX-License-Identifier: MIT
// The sweep of faults: every test of this program again, with its driver calls made to fail one by one.
#pragma once

namespace Catch {
class Session;
}

namespace test {

/// Runs each test that the command line of `session` selects once without faults, and then once for each call
/// that cuevent made in it, with each of some results, which that call fails with: alone, or with all that
/// come after it. Every `stride`-th of these faults, and fewer in long tests. The assertions of the test are
/// then bound to fail, and do not count. What counts is that
///   - every exception is a DriverError with the result and of the class of the fault, or with what the driver
///     itself answered, unless something has gone visibly wrong before;
///   - what destructors report has the result of the fault;
///   - a fault is not lost without a trace, but where cuevent only asks why another call failed;
///   - the fixture finds nothing left behind: no context, handle or capture mode;
///   - nothing crashes or hangs.
/// Prints each violation and a summary. Returns an exit code.
int sweep(Catch::Session& session, int stride);

} // namespace test
