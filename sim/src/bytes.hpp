// SPDX-License-Identifier: MIT
// Reads what somebody else wrote, perhaps badly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace cuevent::sim {

/// Thrown by whoever reads bytes that do not mean what they should.
struct Damaged {};

inline void damaged_if(bool damaged) {
  if (damaged) throw Damaged();
}

/// Bytes whose number may be unknown. Every read is checked.
class Bytes {
public:
  explicit Bytes(std::string_view bytes) : begin_(bytes.data()), size_(bytes.size()) {}
  /// From this address on. They end where memory cannot be read.
  explicit Bytes(const void* memory) : begin_(static_cast<const char*>(memory)), in_memory_(true) {}

  /// Throws Damaged if there are fewer.
  std::string read(std::uint64_t offset, std::uint64_t size) const;

  template <class T>
  T value(std::uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    copy(offset, &value, sizeof value);
    return value;
  }

private:
  void copy(std::uint64_t offset, void* to, std::size_t size) const;

  const char* begin_;
  std::uint64_t size_ = std::uint64_t{1} << 30; // more than any code has
  bool in_memory_ = false;
};

/// A number in text that is long enough.
template <class T>
T value_in(std::string_view text, std::size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  damaged_if(offset > text.size() || text.size() - offset < sizeof(T));
  T value;
  std::memcpy(&value, text.data() + offset, sizeof value);
  return value;
}

} // namespace cuevent::sim
