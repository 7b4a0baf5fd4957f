// SPDX-License-Identifier: MIT
// The standard files of a command that starts a program.
#pragma once

namespace cli {

/// Opens those that are closed. Otherwise a file of this command could become its standard error. A program
/// that it starts still finds them closed.
void fill_closed_descriptors();

} // namespace cli
