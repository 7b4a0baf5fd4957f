// SPDX-License-Identifier: MIT
// The two formats in which nvcc compresses code.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cuevent::sim {

/// A block of LZ4 that holds this many bytes. Throws Damaged if it does not.
std::string decompress_lz4(std::string_view compressed, std::size_t size);

/// Frames of Zstandard (RFC 8878) that hold this many bytes. Throws Damaged if they do not.
std::string decompress_zstd(std::string_view compressed, std::size_t size);

} // namespace cuevent::sim
