// SPDX-License-Identifier: MIT
// IpcHandle::parse and try_parse on any text.
#include "require.hpp"

#include <cuevent/ipc.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

using cuevent::IpcHandle;
using fuzz::require;

namespace {

bool is_hexadecimal(char character) {
  return std::string_view("0123456789abcdefABCDEF").find(character) != std::string_view::npos;
}

std::string lower(std::string text) {
  for (char& character : text)
    if (character >= 'A' && character <= 'F') character = static_cast<char>(character - 'A' + 'a');
  return text;
}

/// What parse() says is wrong, or nothing.
std::string mistake_in(std::string_view text, IpcHandle& out) {
  try {
    out = IpcHandle::parse(text);
    return {};
  } catch (const cuevent::InvalidValue& error) {
    return error.what();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool valid = size == 128 && std::all_of(text.begin(), text.end(), is_hexadecimal);

  IpcHandle untouched;
  untouched.bytes.fill(std::byte{0xa5});
  IpcHandle tried = untouched, parsed = untouched;
  require((IpcHandle::try_parse(tried, text) == CUDA_SUCCESS) == valid, "128 digits, and only those, parse");
  const std::string mistake = mistake_in(text, parsed);
  require(mistake.empty() == valid, "both overloads accept the same texts");
  require(tried == parsed, "both overloads read the same handle");
  if (valid) {
    require(parsed.to_string() == lower(std::string(text)), "a handle reads back as its text");
  } else {
    require(parsed == untouched, "a mistake leaves the handle alone");
    const bool counted = mistake.find(" has " + std::to_string(size) + ":") != std::string::npos;
    require(counted == (size != 128), "the error counts the digits if their number is wrong");
  }
  return 0;
}
