// SPDX-License-Identifier: MIT
// Whether the process would end without the calling thread.
#pragma once

namespace watch {

/// Whether all other threads of the process have ended. The first thread of a process stays in the list of
/// threads when it has ended.
bool is_only_thread();

} // namespace watch
