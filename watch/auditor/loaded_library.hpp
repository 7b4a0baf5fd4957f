// SPDX-License-Identifier: MIT
// The symbols of a library that the loader has mapped, read from its own tables: `dlsym` would look in the
// auditor's namespace, and may not be called from inside the loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <link.h>

namespace watch {

/// The address of an exported function, or null. `suffix` is appended to the name; it may be null.
void* exported_function(const link_map& library, const char* name, const char* suffix);

/// The bytes of an exported function or variable; 0 if there is none.
std::size_t exported_size(const link_map& library, const char* name);

/// Lets every later binding to this exported function, in any version, lead to `replacement`. False if it
/// cannot be done.
bool redirect_function(const link_map& library, const char* name, const char* suffix, void* replacement);

/// Where its memory ends. Its begin if it has no header there.
std::uintptr_t end_of(const link_map& library);

/// The name that programs link the library by. Null if it has none.
const char* linked_name(const link_map& library);

} // namespace watch
