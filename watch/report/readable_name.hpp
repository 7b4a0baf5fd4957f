// SPDX-License-Identifier: MIT
// Names of functions, short enough for a sentence.
#pragma once

#include <string>

namespace watch {

/// The program chose the name. A line break in it would forge a line of a report.
std::string in_one_line(std::string name);

/// The name of the function that a symbol stands for, as in its source.
std::string function_name(const std::string& symbol);

/// The same, shortened.
std::string readable_name(const std::string& symbol);

/// Without the words "(anonymous namespace)::".
std::string without_anonymous_namespaces(std::string name);

/// Without anonymous namespaces. If it is still long, without arguments of templates, and then cut. A file
/// and a line in parentheses at the end stay.
std::string shortened(std::string name);

} // namespace watch
