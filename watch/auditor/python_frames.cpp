// SPDX-License-Identifier: MIT
#include "auditor/python_frames.hpp"

#include "auditor/loaded_library.hpp"
#include "auditor/state.hpp"

#include <cstdint>
#include <cstring>

namespace watch {

/// Where a version of CPython keeps what is needed, in bytes.
struct PythonLayout {
  unsigned version;                                        // 0x30D: 3.13
  std::size_t frame_of_thread, frame_of_c_frame;           // the second: none, or of what the first leads to
  std::size_t previous, code, instruction, owner;          // of a frame
  std::size_t file, name, first_line, lines, instructions; // of a code object
  std::size_t ascii, other;                                // the sizes of a string without its letters
};

namespace {

constexpr std::size_t none = 1000;
constexpr PythonLayout layouts[] = {
    {0x308, 24, none, 24, 32, none, none, 104, 112, 40, none, none, 48, 72}, // to 3.10
    {0x30B, 56, 8, 48, 32, 56, 69, 112, 120, 72, 136, 184, 48, 72},
    {0x30C, 56, 0, 8, 0, 56, 70, 112, 120, 68, 136, 192, 40, 56},
    {0x30D, 72, none, 8, 0, 56, 70, 112, 120, 68, 136, 200, 40, 56},
    {0x30E, 72, none, 8, 0, 56, 74, 112, 120, 68, 136, 208, 40, 56},
};
constexpr std::size_t string_length = 16, string_state = 32, bytes_length = 16, bytes_begin = 32;
constexpr std::uint8_t owned_by_c = 3; // a frame without a function, between others. From 3.14 on, also 4

const Python& python() { return state.python; }

const PythonLayout* layout_of(const link_map& map) {
  const auto exports = [&](const char* name) { return exported_function(map, name, nullptr); };
  unsigned version = 0;
  if (const void* const number = exports("Py_Version")) // from 3.11 on
    version = static_cast<unsigned>(*static_cast<const unsigned long*>(number) >> 16);
  else if (exports("PyVectorcall_Call") != nullptr && exports("PyFrame_GetLineNumber") != nullptr)
    version = 0x308;
  if (exports("_Py_MergeZeroLocalRefcount") != nullptr) return nullptr; // it has no global lock
  for (const PythonLayout& each : layouts)
    if (each.version == version) return &each;
  return nullptr;
}

template <class T = const void*>
T read(const void* object, std::size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

class Writer {
public:
  Writer(char* text, std::size_t room) : text_(text), room_(room) {}
  void add(char letter) {
    if (length_ < room_) text_[length_++] = letter;
  }
  void add(const char* letters) {
    for (; *letters != '\0'; ++letters)
      add(*letters);
  }
  void add(int number) {
    char digits[12];
    std::size_t count = 0;
    for (unsigned rest = number < 0 ? 0U : static_cast<unsigned>(number); count == 0 || rest != 0; rest /= 10)
      digits[count++] = static_cast<char>('0' + rest % 10);
    while (count != 0)
      add(digits[--count]);
  }
  /// A string of Python, in UTF-8. Control characters become question marks.
  void add_string(const void* string) {
    constexpr std::size_t longest = 500;
    if (string == nullptr) return;
    const auto kind = read<std::uint32_t>(string, string_state); // 2 bits, the width in 3, and others
    const std::size_t width = kind >> 2 & 7;
    const bool is_compact = (kind >> 5 & 1) != 0, is_ascii = (kind >> 6 & 1) != 0;
    if (!is_compact || (width != 1 && width != 2 && width != 4)) return add('?');
    const auto length = read<std::size_t>(string, string_length);
    const char* letters =
        static_cast<const char*>(string) + (is_ascii ? python().layout->ascii : python().layout->other);
    for (std::size_t i = 0; i < length && i < longest; ++i, letters += width) {
      std::uint32_t letter = 0;
      std::memcpy(&letter, letters, width);
      add_letter(letter);
    }
  }
  std::size_t length() const { return length_; }

private:
  void add_letter(std::uint32_t letter) {
    if (letter < ' ' || (letter >= 0x7F && letter < 0xA0)) letter = '?';
    if (letter < 0x80) return add(static_cast<char>(letter));
    const unsigned more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3; // bytes after the first
    add(static_cast<char>((0xFF00U >> (more + 1) & 0xFF) | letter >> 6 * more));
    for (unsigned i = more; i-- > 0;)
      add(static_cast<char>(0x80 | (letter >> 6 * i & 63)));
  }

  char* text_;
  std::size_t room_, length_ = 0;
};

/// A signed number in a table of lines: six bits in each byte, the lowest first. The lowest bit of all is
/// the sign.
int signed_number(const std::uint8_t* bytes) {
  unsigned value = 0;
  for (unsigned shift = 0;; shift += 6, ++bytes) {
    value |= (*bytes & 63U) << shift;
    if ((*bytes & 64U) == 0 || shift > 24) break;
  }
  const int size = static_cast<int>(value >> 1);
  return (value & 1) != 0 ? -size : size;
}

/// From 3.11 on. CPython's Objects/locations.md describes the table: only the first byte of each entry has
/// the high bit.
int line_at(const void* code, std::size_t instruction) {
  int line = read<int>(code, python().layout->first_line);
  const void* const table = read(code, python().layout->lines);
  const auto length = table == nullptr ? 0 : read<std::size_t>(table, bytes_length);
  const auto* const bytes = static_cast<const std::uint8_t*>(table) + bytes_begin;
  std::size_t covered = 0; // instructions
  for (std::size_t i = 0; i < length;) {
    const unsigned kind = bytes[i] >> 3 & 15U;
    covered += (bytes[i] & 7U) + 1;
    if (kind == 13 || kind == 14) line += signed_number(bytes + i + 1);
    if (kind >= 10 && kind <= 12) line += static_cast<int>(kind) - 10;
    if (instruction < covered) break;
    for (++i; i < length && (bytes[i] & 128U) == 0;)
      ++i;
  }
  return line;
}

int line_of(const void* frame, const void* code) {
  if (python().layout->owner == none) return python().line_of_frame(frame);
  const auto begin = reinterpret_cast<std::uintptr_t>(code) + python().layout->instructions;
  const auto at = read<std::uintptr_t>(frame, python().layout->instruction);
  return line_at(code, at < begin ? 0 : (at - begin) / 2);
}

/// From 3.14 on, the lowest bits say who counts the reference.
const void* code_of(const void* frame) {
  constexpr std::uintptr_t owners = 3;
  return reinterpret_cast<const void*>(read<std::uintptr_t>(frame, python().layout->code) & ~owners);
}

/// Innermost first.
template <class Visit>
void for_each_frame(PythonState thread, const Visit& visit) {
  const void* frame = read(thread, python().layout->frame_of_thread);
  if (python().layout->frame_of_c_frame != none) frame = read(frame, python().layout->frame_of_c_frame);
  for (unsigned i = 0; frame != nullptr && i < 100; frame = read(frame, python().layout->previous), ++i) {
    if (python().layout->owner != none && read<std::uint8_t>(frame, python().layout->owner) >= owned_by_c)
      continue;
    if (const void* const code = code_of(frame); code != nullptr) visit(frame, code);
  }
}

} // namespace

void find_python(const link_map& map) {
  Python& found = state.python;
  if (found.interpreter != nullptr) return;
  const auto exports = [&](const char* name) { return exported_function(map, name, nullptr); };
  void* const current = exports("PyGILState_GetThisThreadState");
  found.layout = current == nullptr ? nullptr : layout_of(map);
  if (found.layout == nullptr) return;
  found.state_of_this_thread = reinterpret_cast<PythonState (*)()>(current);
  found.line_of_frame = reinterpret_cast<int (*)(const void*)>(exports("PyFrame_GetLineNumber"));
  void* const ending = exports("_Py_IsFinalizing");
  found.is_finalizing =
      reinterpret_cast<int (*)()>(ending != nullptr ? ending : exports("Py_IsFinalizing")); // 3.13
  found.interpreter = &map;
}

void forget_python(const link_map& map) {
  if (state.python.interpreter == &map) state.python.interpreter = nullptr;
}

bool python_is_ending() { return python().is_finalizing == nullptr || python().is_finalizing() != 0; }

PythonState python_state_of_this_thread() {
  return python().interpreter == nullptr ? nullptr : python().state_of_this_thread();
}

std::uint64_t python_place(PythonState thread) {
  std::uint64_t hash = 1;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15U; };
  for_each_frame(thread, [&](const void* frame, const void* code) {
    add(reinterpret_cast<std::uintptr_t>(code));
    // Another function may lie where one lay that is gone.
    add(read<std::uintptr_t>(code, python().layout->name) +
        read<std::uint32_t>(code, python().layout->first_line));
    add(python().layout->owner == none ? static_cast<std::uint64_t>(python().line_of_frame(frame))
                                       : read<std::uintptr_t>(frame, python().layout->instruction));
  });
  return hash;
}

std::size_t python_frames(PythonState thread, char* text, std::size_t room) {
  if (python().interpreter == nullptr || thread == nullptr) return 0;
  Writer to(text, room);
  for_each_frame(thread, [&](const void* frame, const void* code) {
    to.add("  File \"");
    to.add_string(read(code, python().layout->file));
    to.add("\", line ");
    to.add(line_of(frame, code));
    to.add(" in ");
    to.add_string(read(code, python().layout->name));
    to.add('\n');
  });
  return to.length();
}

} // namespace watch
